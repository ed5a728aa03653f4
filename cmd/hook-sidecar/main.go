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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	streams := streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	code := run(ctx, os.Args, os.Environ(), streams)
	stop()
	os.Exit(code)
}
