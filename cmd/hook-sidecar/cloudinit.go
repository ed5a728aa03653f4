package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/keys/cloudinit"
	"hook-sidecar/pkg/tools/cli"
)

func newCloudInit(p *cli.Program) *cobra.Command {
	var userData, output string
	cmd := &cobra.Command{
		Use:   "cloud-init [--user-data FILE]",
		Short: "Add the reader of the topology file to cloud-init user data",
		Long: `cloud-init prints the user data that a VM gets from serve with
--nccl-topology=cloudinit: that of the file, and a script that copies the topology
file to where NCCL looks for it, in each boot. Where the hook cannot do so, put the
output into the VM's user data by hand.

Exit status:
  0  success
  2  usage error, or the file is not user data of cloud-init`,
		Example: `  hook-sidecar cloud-init
  hook-sidecar cloud-init --user-data user-data.yaml --output-file merged.txt`,
	}

	cmd.Flags().StringVar(&userData, "user-data", "",
		"the VM's user data, or - for standard input (default: none)")
	cli.AddOnlyFile(cmd.Flags(), &output)
	cmd.RunE = func(*cobra.Command, []string) error {
		var given []byte
		if userData != "" {
			var err error
			if given, err = p.ReadInput(userData); err != nil {
				return err
			}
		}

		merged, err := cloudinit.Merge(given)
		if err != nil {
			return cli.Failed("cloud-init reads data that begins with #cloud-config, #! and "+
				"the like",
				fmt.Errorf("%s: %w", cli.InputName(userData), err))
		}

		return p.Write(output, merged)
	}

	return cmd
}
