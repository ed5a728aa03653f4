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
		Long:    "version prints the version of the program and the Go release that built it.\n\nExit status: 0",
		Example: "  hook-sidecar version",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, version())
			return err
		},
	}
}

// version returns what the build recorded: the tag or the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "hook-sidecar unknown"
	}
	return fmt.Sprintf("hook-sidecar %s %s", info.Main.Version, info.GoVersion)
}
