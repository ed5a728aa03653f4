package reasons

import (
	"errors"
	"fmt"
)

// Error is an error with a hint.
type Error struct {
	Err  error
	Hint string // what to do; "" for none
}

// HintOf returns the hint of an error, "" for none.
func HintOf(err error) string {
	if hinted, isHinted := errors.AsType[*Error](err); isHinted {
		return hinted.Hint
	}
	return ""
}

// Text returns an error with its hint in brackets, for a line of its own.
func Text(err error) string {
	if hint := HintOf(err); hint != "" {
		return fmt.Sprintf("%v (%s)", err, hint)
	}
	return err.Error()
}

// pages is the address of the pages of a release, which release/make links into its programs.
// A program built in a checkout has "": the pages are there.
var pages string

// Page returns where a page of the project is, for a hint.
func Page(name string) string { return pages + name }

// WithHint returns an error with a hint.
func WithHint(hint string, err error) error { return &Error{Err: err, Hint: hint} }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its hint.
func (e *Error) Unwrap() error { return e.Err }
