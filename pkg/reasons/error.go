package reasons

// Error is an error with a hint.
type Error struct {
	Err  error
	Hint string // what to do; "" for none
}

// WithHint returns an error with a hint.
func WithHint(hint string, err error) error { return &Error{Err: err, Hint: hint} }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its hint.
func (e *Error) Unwrap() error { return e.Err }
