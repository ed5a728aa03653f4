package main

import (
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/tools/cli"
)

func newSnapshot(p *cli.Program) *cobra.Command {
	var sysfs, output string
	var from []string
	cmd := &cobra.Command{
		Use:   "snapshot [flags]",
		Short: "Save the host's topology to a portable file",
		Long: `snapshot writes the part of /sys that this program reads to one text file: NUMA
nodes, PCI functions, mediated devices and IOMMU groups. The other commands
accept it as --sysfs in place of the host. It has no serial numbers, MAC
addresses, machine UUIDs or host names; UUIDs of mediated devices stay, because
they are their names.

A snapshot of a snapshot is the same file.

With --from it makes one of a machine that is not at hand, from what was recorded
of it: lstopo --of xml, nvidia-smi topo -m with lspci -Dvmmnn, a topology file of
NCCL or RCCL, or root's lspci -vvv or rdma_topo dump, which have the registers by
which doctor judges peer-to-peer DMA. Serial numbers are left out. Its first lines
say what the record does not, and what was taken in its place; so does standard
error.

Exit status:
  0  success
  2  usage error, or the host cannot be read`,
		Example: `  hook-sidecar snapshot --output-file host.txtar
  hook-sidecar snapshot --sysfs /host/sys | ssh workstation 'cat > host.txtar'
  hook-sidecar explain --sysfs host.txtar --domain vm.xml
  hook-sidecar snapshot --from topo-m.txt --from lspci.txt --output-file host.txtar
  ssh root@gpu-7 lspci -Dvvvnn | hook-sidecar snapshot --from - --output-file host.txtar
  hook-sidecar demo --host host.txtar`,
	}

	addSysfsFlag(cmd.Flags(), &sysfs)
	cmd.Flags().StringArrayVar(&from, "from", nil,
		"what was recorded of a machine, in place of --sysfs; - is standard\n"+
			"input; several of one machine complete each other")

	cmd.MarkFlagsMutuallyExclusive("from", "sysfs")
	cli.AddOnlyFile(cmd.Flags(), &output)
	cmd.RunE = func(*cobra.Command, []string) error { return runSnapshot(p, sysfs, from, output) }
	return cmd
}

// runSnapshot writes a snapshot: of records, else of a snapshot on standard input, else of a host.
func runSnapshot(p *cli.Program, sysfs string, from []string, output string) error {
	switch {
	case len(from) > 0:
		made, err := readRecord(p, from)
		if err != nil {
			return err
		}
		return p.WriteSnapshot(output, made.sysfs, made.header, "")

	case sysfs == "-":
		fsys, header, err := p.ReadSnapshot()
		if err != nil {
			return err
		}
		return p.WriteSnapshot(output, fsys, header, "")
	}

	fsys, err := openSysfs(p, sysfs)
	if err != nil {
		return err
	}

	header, source, err := snapshotHeader(p, sysfs, fsys)
	if err != nil {
		return err
	}

	return p.WriteSnapshot(output, fsys, header, source)
}

// snapshotHeader returns the header of a snapshot, which a snapshot of it keeps, or the
// source of a new one.
func snapshotHeader(p *cli.Program, name string, sysfs fs.FS) (header, source string, err error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return "", "", err
	case !info.IsDir():
		data, err := p.ReadInput(name)
		return host.SnapshotComment(data), "", err

	case name != liveSysfs:
		return "", "a directory", nil
	}

	return "", host.Source(sysfs), nil
}
