package mutate

import (
	"errors"
	"maps"

	"hook-sidecar/pkg/policy"
)

// Unchanged returns a Mutator that moves and adds nothing.
func (m Mutator) Unchanged() Mutator {
	m = m.With(map[policy.Key]string{
		policy.KeyLayout: "keep", policy.KeyAdd: "none", policy.KeyCompanions: "keep",
		policy.KeyStrict: "false", policy.KeyNCCLTopology: "none",
	})
	m.AnnotationsFirst, m.asIs = false, true
	return m
}

// With returns a Mutator with these flags too.
func (m Mutator) With(more map[policy.Key]string) Mutator {
	flags := map[policy.Key]string{}
	maps.Copy(flags, m.Flags)
	maps.Copy(flags, more)
	m.Flags = flags
	return m
}

// IsRefusal reports whether strict policy refuses a plan.
func IsRefusal(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Refused
}
