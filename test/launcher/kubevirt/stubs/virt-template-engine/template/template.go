// Package template is imported by virtctl, whose tests go mod tidy reads.
package template
