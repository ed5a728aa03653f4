// Command hook-sidecar places the passthrough devices of a KubeVirt VM in the
// guest's PCI Express tree as the host's hardware has them.
package main

import (
	"context"
	"os"

	"hook-sidecar/pkg/tools/cli"
)

func main() {
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(run(context.Background(), os.Args, os.Environ(), streams))
}
