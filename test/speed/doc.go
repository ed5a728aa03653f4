// Package speed measures what a call of the hook costs against a hook that does
// nothing, on a directory of files and on the sysfs of a guest in QEMU, and shows that
// a server that has answered many calls answers as a process that has just started,
// whatever has changed on the host. All are real processes on real sockets.
//
//	go test -run '^$' -bench OnDefineDomain ./cmd/hook-sidecar
//	go test -run '^$' -bench Growth ./test/speed
//	go test -run '^$' -bench FirstCall ./test/sidecar
//	go test -run TestLikeFresh ./test/speed -args -steps 5000 -seed 2
//	go test -run GuestRace -v ./test/speed # needs BOOT_KERNEL, see package boot
package speed
