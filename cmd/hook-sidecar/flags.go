package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hook-sidecar/pkg/tools/cli"
)

// liveSysfs is where Linux mounts sysfs.
const liveSysfs = "/sys"

// socketDirectory is where KubeVirt mounts the directory of a sidecar's socket.
const socketDirectory = "/var/run/kubevirt-hooks"

func addVMIFlag(flags *pflag.FlagSet, vmi *string) {
	flags.StringVar(vmi, "vmi", "",
		"VirtualMachineInstance, or a VirtualMachine for its template, as JSON or YAML")
}

// addSysfsFlag adds the host, which guest and demo, and cases, name host.
func addSysfsFlag(flags *pflag.FlagSet, sysfs *string) {
	cli.AlsoNamed(flags, "host", "sysfs")
	flags.StringVar(sysfs, "sysfs", liveSysfs,
		"the host: a sysfs directory or a snapshot file, or - for standard input;\nalso --host")
}

// exclude rejects two flags that contradict each other.
func exclude(cmd *cobra.Command, one, other string) error {
	if !cmd.Flags().Changed(one) || !cmd.Flags().Changed(other) {
		return nil
	}
	return cli.Failed(cli.SeeHelp(cmd),
		fmt.Errorf("flags --%s and --%s cannot be used together", one, other))
}
