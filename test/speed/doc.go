// Package speed measures what a call of the hook costs against a hook that does
// nothing, and shows that a server that has answered many calls answers as a process
// that has just started, whatever has changed on the host. All are real processes on
// real sockets, and the host is a directory of files.
//
//	go test -run '^$' -bench OnDefineDomain ./cmd/hook-sidecar
//	go test -run '^$' -bench Growth ./test/speed
//	go test -run '^$' -bench FirstCall ./test/sidecar
//	go test -run TestLikeFresh ./test/speed -args -steps 5000 -seed 2
package speed
