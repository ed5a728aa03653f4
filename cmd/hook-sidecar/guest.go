package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
)

// guestFlags are the flags of guest.
type guestFlags struct {
	cli.Output
	host string
}

func newGuest(p *cli.Program) *cobra.Command {
	var flags guestFlags
	cmd := &cobra.Command{
		Use:   "guest [FILE...]",
		Short: "Say how good a guest's PCI tree is, and what to do",
		Long: `guest is for a person in a VM. Its first line says good, partly, flat or broken, and
what that costs; then it has a line per GPU with its NUMA node, its nearest NIC and
whether NCCL uses GPUDirect RDMA; a row per consumer of the tree (NCCL, UCX, DRA,
P2PDMA, hwloc); what the person can do without an administrator; and what to send
to the administrator. It needs neither the domain nor the host.

Without a FILE it reads what is piped to it, else the /sys of this machine. A FILE, or
- for standard input, is anything pasted from the guest: nvidia-smi topo -m or -mp,
lspci in any form, lstopo, NCCL's log or topology file, rocm-smi, amd-smi, virsh
nodedev-dumpxml, or hook-sidecar snapshot. Several of one guest complete each other,
also in one file.
` + reasons.Page("docs/guest.md") + ` says what each of them shows.

With --host it compares the guest with the bare metal: which consumers decide as
there, and the keys of the hook that restore what was lost. -o nccl writes the
host's topology with the guest's addresses for NCCL_TOPO_FILE.

Exit status:
  0  success
  2  usage error or invalid input`,
		Example: `  hook-sidecar guest
  nvidia-smi topo -mp | hook-sidecar guest
  hook-sidecar guest topo.txt lspci.txt --host host.txtar
  NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf -g 8 && hook-sidecar guest topo.xml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error { return runGuest(p, args, flags) },
	}

	flags.Add(cmd, cli.Text, cli.JSON, cli.YAML, cli.NCCL)
	cmd.Flags().StringVar(&flags.host, "host", "",
		"compare the guest with what the bare metal shows: a file of any of\nthese formats")
	return cmd
}

func runGuest(p *cli.Program, args []string, flags guestFlags) error {
	if err := flags.Check(); err != nil {
		return err
	}

	guest, err := readGuest(p, args)
	if err != nil {
		return err
	}

	var host *paste.Machine
	if flags.host != "" {
		read, err := readMachine(p, flags.host)
		if err != nil {
			return err
		}
		host = &read
	}

	v := verdict.New(guest, host)
	if flags.Format == cli.NCCL {
		file, err := v.TopologyFile()
		if err != nil {
			return cli.Failed("pass --host with a file of the bare metal, with nvidia-smi -q and "+
				"lstopo --of xml of both sides; else kubectl hostdev explain VM -o nccl writes the file",
				fmt.Errorf("write NCCL's topology file: %w", err))
		}

		return p.Write(flags.File, []byte(file.String()))
	}

	return p.WriteAs(flags.Output, v, func(b *bytes.Buffer) error {
		return v.WriteText(b, p.Style(flags.File))
	})
}

// readGuest reads the guest that files show, or without one what is piped to the program, or this
// machine.
func readGuest(p *cli.Program, files []string) (guest paste.Machine, err error) {
	if len(files) == 0 {
		isPiped, err := p.IsPiped()
		if err != nil {
			return guest, err
		}

		if !isPiped {
			return readLive(p)
		}

		files = []string{"-"}
	}

	var parts []paste.Machine
	for _, file := range files {
		part, err := readMachine(p, file)
		if err != nil {
			return guest, err
		}
		parts = append(parts, part)
	}

	return paste.Join(parts)
}

// readLive reads the /sys of this machine.
func readLive(p *cli.Program) (paste.Machine, error) {
	fsys, err := openSysfs(p, liveSysfs)
	if err != nil {
		return paste.Machine{}, err
	}

	guest, problems := paste.ReadSysfs(fsys)
	p.Warn(problems)
	return guest, nil
}

// readMachine reads what a file shows of a machine.
func readMachine(p *cli.Program, file string) (paste.Machine, error) {
	data, err := p.ReadInput(file)
	if err != nil {
		return paste.Machine{}, err
	}
	return p.ReadGuest(cli.InputName(file), data)
}
