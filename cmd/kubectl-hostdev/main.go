// Command kubectl-hostdev is a plugin of kubectl that shows where the passthrough devices of a
// running KubeVirt VM are in the guest's PCI Express tree, and where they could be. It changes
// nothing, except that --debug-image makes a pod and deletes it. It needs no hook in the cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"hook-sidecar/pkg/tools/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	klog.SetLogger(logr.Discard()) // client-go logs what it returns as an error, too
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	code := run(ctx, os.Args[1:], os.Environ(), streams)
	stop()
	os.Exit(code)
}
