// Command hook-sidecar puts the passthrough devices of a KubeVirt VM where the
// host's hardware says they belong in the guest's PCI Express tree.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	streams := streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	os.Exit(run(context.Background(), os.Args, os.Environ(), streams))
}

// untilSignal is a context that SIGTERM and SIGINT end. Only commands that
// clean up behind themselves ask for it: the others would not notice, and read
// on from a terminal after Ctrl-C. The signals stay caught to the end of the
// process, so that a second one does not cut the clean-up short.
func untilSignal(ctx context.Context) context.Context {
	ctx, _ = signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	return ctx
}
