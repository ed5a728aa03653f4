package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/host"
)

func (a *app) newSnapshot() *cobra.Command {
	var sysfs, output string
	cmd := &cobra.Command{
		Use:   "snapshot [flags]",
		Short: "Save the host's topology to a portable file",
		Long: `snapshot writes the part of /sys that this program reads to one text file: NUMA
nodes, PCI functions, mediated devices and IOMMU groups. The other commands
accept it as --sysfs in place of the host. It has no serial numbers, MAC
addresses, machine UUIDs or host names; UUIDs of mediated devices stay, because
they are their names.

A snapshot of a snapshot is the same file.

Exit status:
  0  success
  2  usage error, or the host cannot be read`,
		Example: `  hook-sidecar snapshot -o host.txtar
  hook-sidecar snapshot --sysfs /host/sys | ssh workstation 'cat > host.txtar'
  hook-sidecar explain --sysfs host.txtar --domain vm.xml`,
	}

	addSysfsFlag(cmd.Flags(), &sysfs)
	cli.AddOutput(cmd.Flags(), &output)
	cmd.RunE = func(*cobra.Command, []string) error {
		if sysfs == "-" {
			fsys, header, err := a.ReadSnapshot()
			if err != nil {
				return err
			}
			return a.WriteSnapshot(output, fsys, header, "")
		}

		fsys, err := a.openSysfs(sysfs)
		if err != nil {
			return err
		}

		header, source, err := a.snapshotHeader(sysfs)
		if err != nil {
			return err
		}

		return a.WriteSnapshot(output, fsys, header, source)
	}

	return cmd
}

// snapshotHeader returns the header of a snapshot, which a snapshot of it keeps, or the
// source of a new one.
func (a *app) snapshotHeader(sysfs string) (header, source string, err error) {
	info, err := os.Stat(sysfs)
	switch {
	case err != nil:
		return "", "", err
	case !info.IsDir():
		data, err := a.ReadInput(sysfs)
		return host.SnapshotComment(data), "", err

	case sysfs != liveSysfs:
		return "", "a directory", nil
	}

	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", "", fmt.Errorf("read the kernel's release: %w", err)
	}

	return "", "/sys of Linux " + strings.TrimSpace(string(release)), nil
}
