package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

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

A snapshot of a snapshot is the same file. The environment variable
SOURCE_DATE_EPOCH, in seconds, replaces the current time in the header.

Exit status:
  0  success
  2  usage error, or the host cannot be read`,
		Example: `  hook-sidecar snapshot -o host.txtar
  hook-sidecar snapshot --sysfs /host/sys | ssh workstation 'cat > host.txtar'
  hook-sidecar explain --sysfs host.txtar --domain vm.xml`,
		Args: cli.NoArguments,
	}
	addSysfsFlag(cmd.Flags(), &sysfs)
	cli.AddOutput(cmd.Flags(), &output)
	cmd.RunE = func(*cobra.Command, []string) error {
		data, err := a.snapshot(sysfs)
		if err != nil {
			return err
		}
		return a.Write(output, data)
	}
	return cmd
}

func (a *app) snapshot(sysfs string) ([]byte, error) {
	fsys, err := openSysfs(sysfs)
	if err != nil {
		return nil, err
	}
	snapshot, err := a.TakeSnapshot(fsys)
	if err != nil {
		return nil, cli.Failed("--sysfs takes a sysfs directory or a snapshot file", err)
	}
	comment, err := a.snapshotComment(sysfs, snapshot)
	if err != nil {
		return nil, err
	}
	return snapshot.Format(comment)
}

// snapshotComment returns the header of a snapshot. A snapshot of a snapshot keeps its
// header.
func (a *app) snapshotComment(sysfs string, s *host.Snapshot) (string, error) {
	info, err := os.Stat(sysfs)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		data, err := a.readInput(sysfs)
		return host.SnapshotComment(data), err
	}
	taken, err := a.now()
	if err != nil {
		return "", err
	}
	source := "a directory"
	if sysfs == liveSysfs {
		release, err := os.ReadFile("/proc/sys/kernel/osrelease")
		if err != nil {
			return "", fmt.Errorf("read the kernel's release: %w", err)
		}
		source = "/sys of Linux " + strings.TrimSpace(string(release))
	}
	return cli.SnapshotComment(s, taken, source, version()), nil
}

// now returns the current time, or that of SOURCE_DATE_EPOCH
// (reproducible-builds.org/specs/source-date-epoch).
func (a *app) now() (time.Time, error) {
	text := a.Environ.Variable("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid SOURCE_DATE_EPOCH %q: must be a number of seconds", text)
	}
	return time.Unix(seconds, 0), nil
}
