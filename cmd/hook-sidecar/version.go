package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "version prints the version of the program and the Go release that built it.\nhook-sidecar --version does, too.\n\nExit status: 0",
		Example: "  hook-sidecar version\n  hook-sidecar --version",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, version())
			return err
		},
	}
}

// version returns what the build recorded: the tag or the commit, and Go's release.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return programVersion()
	}
	return programVersion() + " " + info.GoVersion
}

// programVersion returns the version without Go's release.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "hook-sidecar unknown"
	}
	return "hook-sidecar " + info.Main.Version
}
