package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
)

func (a *app) newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, Example: "  kubectl hostdev version",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, version())
			return err
		},
	}
}

// version is what the build recorded.
func version() string { return cli.Version("kubectl-hostdev") }
