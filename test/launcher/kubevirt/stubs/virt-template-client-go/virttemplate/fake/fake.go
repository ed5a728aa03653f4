// Package fake is imported by tests of virtctl, which go mod tidy reads.
package fake
