// Command hook-sidecar places the passthrough devices of a KubeVirt VM in the
// guest's PCI Express tree as the host's hardware has them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"hook-sidecar/pkg/cli"
)

func main() {
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(run(context.Background(), os.Args, os.Environ(), streams))
}

// untilSignal returns a context that SIGTERM and SIGINT cancel, for commands that clean up:
// the others would not notice a signal, and would continue to read from a terminal after
// Ctrl-C. A second signal does not interrupt the cleanup.
func untilSignal(ctx context.Context) context.Context {
	ctx, _ = signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	return ctx
}
