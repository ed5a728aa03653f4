package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
)

func newGuest(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "guest [FILE]",
		Short: "Say what a guest believes about its devices",
		Long: `guest says in a few lines how many GPUs and NICs of a VM know their NUMA node,
whether all are on one root bus, which pairs are near each other, and what to send
to whoever runs the cluster. It needs neither the domain nor the host.

Without a FILE it reads what is piped to it, else the /sys of this machine. A FILE, or
- for standard input, is the output of lspci -Dvmmnn, lstopo --of xml, nvidia-smi topo -mp or
hook-sidecar snapshot in the guest, or NCCL's file of NCCL_TOPO_DUMP_FILE.
` + reasons.Page("docs/guest.md") + ` says what each of them shows.

Exit status:
  0  success
  2  usage error or invalid input`,
		Example: `  hook-sidecar guest
  nvidia-smi topo -mp | hook-sidecar guest
  NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf -g 8 && hook-sidecar guest topo.xml`,
		Args: cli.AtMostOne,
		RunE: func(_ *cobra.Command, args []string) error { return runGuest(p, args) },
	}
}

func runGuest(p *cli.Program, args []string) error {
	name, guest, err := readGuest(p, args)
	if err != nil {
		return err
	}

	var out bytes.Buffer
	if err := report.WriteBelief(&out, name, guest, p.Style("")); err != nil {
		return err
	}

	return p.Write("", out.Bytes())
}

// readGuest reads the guest that an argument names, or without one what is piped to the program, or
// this machine. It returns the name of what it read.
func readGuest(p *cli.Program, args []string) (name string, guest paste.Machine, err error) {
	isPiped := false
	if len(args) == 0 {
		if isPiped, err = p.IsPiped(); err != nil {
			return "", guest, err
		}
	}

	if len(args) == 0 && !isPiped {
		fsys, err := openSysfs(p, liveSysfs)
		if err != nil {
			return "", guest, err
		}

		guest, problems := paste.ReadSysfs(fsys)
		p.Warn(findings.Given(problems))
		return liveSysfs, guest, nil
	}

	file := "-"
	if !isPiped {
		file = args[0]
	}

	data, err := p.ReadInput(file)
	if err == nil {
		guest, err = p.ReadGuest(cli.InputName(file), data)
	}

	return fileName(file), guest, err
}
