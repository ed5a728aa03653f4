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
	var hinted *Error
	if errors.As(err, &hinted) {
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

// WithHint returns an error with a hint.
func WithHint(hint string, err error) error { return &Error{Err: err, Hint: hint} }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its hint.
func (e *Error) Unwrap() error { return e.Err }
