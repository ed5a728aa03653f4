package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
)

func (a *app) newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "version prints the version of the program and the Go release that built it.\nhook-sidecar --version does, too.\n\nExit status: 0",
		Example: "  hook-sidecar version\n  hook-sidecar --version",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, version())
			return err
		},
	}
}

// version returns what the build recorded: the tag or the commit, and Go's release.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cli.Version(programName) + " " + info.GoVersion
	}
	return cli.Version(programName)
}

const programName = "hook-sidecar"
