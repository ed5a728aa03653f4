// Package mutate is one call from bytes to bytes: parse, read the host, plan,
// apply, verify. It is where the rooms meet; the servers and the commands all
// go through it. Whatever happens, the bytes to hand back are there: on any
// error they are those that came in.
package mutate
