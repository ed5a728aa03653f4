// Package doctor checks whether a host, an environment and a domain are fit for
// passthrough placement, and says what to do where they are not.
//
// A check is a value: a name that stays, and a function from Inputs to Results.
// It reads nothing and knows no clock; who calls reads the inputs. A check that
// the inputs give nothing to say about returns no result.
package doctor
