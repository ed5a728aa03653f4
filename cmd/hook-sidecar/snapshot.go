package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/topology"
)

func (a *app) newSnapshot() *cobra.Command {
	var sysfs, output string
	cmd := &cobra.Command{
		Use:   "snapshot [flags]",
		Short: "Write what of a host placement reads, to use anywhere",
		Long: `snapshot writes the part of /sys that this program reads as one text file, which
--sysfs of the other commands takes in place of the host: its NUMA nodes, PCI
functions, mediated devices and IOMMU groups. No serial number, MAC address,
machine UUID or host name is in it; the UUIDs of mediated devices are names and
stay.

A snapshot of a snapshot is the same file. The environment variable
SOURCE_DATE_EPOCH, in seconds, stands for the clock in the head of the file.

Exit status:
  0  done
  2  usage, or the host cannot be read`,
		Example: `  hook-sidecar snapshot -o host.txtar
  hook-sidecar snapshot --sysfs /host/sys | ssh workstation 'cat > host.txtar'
  hook-sidecar explain --sysfs host.txtar --domain vm.xml`,
		Args: noArguments,
	}
	cmd.Flags().StringVar(&sysfs, "sysfs", liveSysfs, "the host: a /sys folder or a snapshot file")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this file, whole or not at all (default: standard output)")
	cmd.RunE = func(*cobra.Command, []string) error {
		data, err := a.snapshot(sysfs)
		if err != nil {
			return err
		}
		return a.write(output, data)
	}
	return cmd
}

func (a *app) snapshot(sysfs string) (data []byte, err error) {
	host, closer, err := env.OpenSysfs(sysfs)
	if err != nil {
		return nil, failure{exitFailed, err, "--sysfs takes a /sys folder or a snapshot file"}
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	snapshot, problems, err := env.TakeSnapshot(host)
	if err != nil {
		return nil, failure{exitFailed, err, "--sysfs takes a /sys folder or a snapshot file"}
	}
	for _, p := range problems {
		fmt.Fprintf(a.err, "hook-sidecar: warning: left out of the snapshot: %s: %s\n", p.Source, p.Text)
	}
	comment, err := a.snapshotComment(sysfs, snapshot)
	if err != nil {
		return nil, err
	}
	return snapshot.Format(comment)
}

// snapshotComment is the head of a snapshot: that of the snapshot it is made
// of, or when and by what it was taken.
func (a *app) snapshotComment(sysfs string, s *env.Snapshot) (string, error) {
	info, err := os.Stat(sysfs)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		data, err := a.readInput(sysfs)
		return env.SnapshotComment(data), err
	}
	taken, err := a.now()
	if err != nil {
		return "", err
	}
	source := "a folder"
	if sysfs == liveSysfs {
		release, err := os.ReadFile("/proc/sys/kernel/osrelease")
		if err != nil {
			return "", fmt.Errorf("find out the kernel's release: %w", err)
		}
		source = "/sys of Linux " + strings.TrimSpace(string(release))
	}
	return fmt.Sprintf(`Host snapshot, taken %s from %s
by %s: %s, %s, %s.

`, taken.UTC().Format(time.RFC3339), source, version(),
		topology.Counted(s.Nodes, "NUMA node"), topology.Counted(s.Functions, "PCI function"), topology.Counted(s.MDEVs, "mediated device")), nil
}

// now is the time, or what SOURCE_DATE_EPOCH says it is
// (reproducible-builds.org/specs/source-date-epoch).
func (a *app) now() (time.Time, error) {
	text := a.variable("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("variable SOURCE_DATE_EPOCH: %q is no number of seconds", text)
	}
	return time.Unix(seconds, 0), nil
}
