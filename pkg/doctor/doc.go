// Package doctor checks whether a host, an environment and a domain are fit for
// passthrough placement, with a hint where they are not.
//
// A check is a value: a stable name, and a function from Inputs to Results. It
// reads no files and has no clock; the caller reads the inputs. Checks without
// input are skipped.
//
// result.go has what a check returns, inputs.go the inputs, doctor.go the list of the
// checks, which are in the other files.
package doctor
