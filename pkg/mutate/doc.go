// Package mutate handles one call, from bytes to bytes: parse, read the host,
// plan, apply, verify. Servers and commands use it alike. On any error the
// result is the domain that was passed in.
package mutate
