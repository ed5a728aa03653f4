// Package report says what a plan decided and why: as JSON with a stable
// schema, and as text for a terminal. It is pure: a plan in, text out.
package report
