package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/sidecar"
	"hook-sidecar/pkg/tools/cli"
)

// run runs a command line and returns the exit code.
func run(ctx context.Context, args, environ []string, streams cli.Streams) int {
	p := &cli.Program{Streams: streams, Environ: environ, Prefix: "hook-sidecar: "}
	var log sidecar.Log

	// The first process of a container of a VM's pod ends with it.
	_, err := os.Stat(socketDirectory)
	words := withCommand(args, err == nil && os.Getpid() == 1)
	root := newRoot(p, &log, words)
	root.SetArgs(words)
	if len(args) == 1 && filepath.Base(args[0]) != sidecar.Shim &&
		cli.IsTerminal(streams.Out) {
		root.SetArgs([]string{"help"}) // KubeVirt gives a sidecar no terminal
	}

	var help bytes.Buffer // cobra ignores errors when it prints
	root.SetOut(&help)
	completeValues(root)
	err = root.ExecuteContext(ctx)
	if help.Len() > 0 {
		err = errors.Join(err, p.Write("", help.Bytes()))
	}

	code := p.ExitStatus(err)
	log.End()
	return code
}

// withCommand returns the arguments with the command that they leave out: onDefineDomain
// when KubeVirt's sidecar-shim calls the program by that name, else serve when the first
// argument is a flag, because KubeVirt passes a sidecar its args only. A -v, or a --version
// without a value, is the program's, not serve's, but a sidecar has no other command.
func withCommand(args []string, isSidecar bool) []string {
	name, rest := filepath.Base(args[0]), args[1:]
	switch {
	case name == sidecar.Shim:
		return append([]string{sidecar.Shim}, rest...)
	case len(rest) == 0:
		return []string{"serve"}
	case isSidecar && rest[0] != "serve":
		return append([]string{"serve"}, rest...)
	case len(rest) == 1 && (rest[0] == "--version" || rest[0] == "-v"):
		return []string{"version"}
	case strings.HasPrefix(rest[0], "-") && rest[0] != "-h" && rest[0] != "--help":
		return append([]string{"serve"}, rest...)
	}

	return rest
}

// newRoot returns the program's root command, with its commands. The words are the command and its
// arguments.
func newRoot(p *cli.Program, log *sidecar.Log, words []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "hook-sidecar [command] [flags]",
		Short: "Place the passthrough devices of a KubeVirt VM as the host's hardware has them",
		Long: `hook-sidecar rewrites a libvirt domain so that every passthrough device has the
place in the guest's PCI Express tree that it has on the host: on its NUMA node,
under its PCIe root and its switch.

Without a command it runs serve, which is how KubeVirt starts a hook sidecar; on a
terminal it prints this help. With --version alone it prints the version.

Exit status: that of the command; 2 for an unknown command or flag.`,
		Example: `  hook-sidecar demo
  hook-sidecar mutate --domain vm.xml --vmi vmi.json --diff`,
	}

	p.Root(root, newServe(p, log, words[1:]), newOnDefineDomain(p, log), newMutate(p),
		newExplain(p), newDoctor(p), newGuest(p), newSnapshot(p), newTest(p),
		newCloudInit(p), newDemo(p))

	addCompletion(root)

	for _, cmd := range root.Commands() {
		if cmd.Args == nil {
			cmd.Args = cli.NoArguments
		}
	}

	return root
}

// addCompletion adds cobra's command for shell completion, which would print
// help for an unknown shell.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, _ := root.Find([]string{"completion"})
	cmd.Long += "\nExit status:\n  0  success\n  2  usage error or failure"
	cmd.Example = "  source <(hook-sidecar completion bash)\n  hook-sidecar completion fish > " +
		"~/.config/fish/completions/hook-sidecar.fish"
	cmd.Args, cmd.RunE = cli.NoArguments, root.RunE
}

// completeValues sets the values that shells complete for flags that have few.
// Other flags take files, and so do the arguments of a command that says so.
func completeValues(root *cobra.Command) {
	values := map[string][]string{"version": hooks.Versions()}
	for _, s := range policy.Settings() {
		values[string(s.Key)] = s.Values
		values["lock"] = append(values["lock"], string(s.Key))
	}

	for _, cmd := range root.Commands() {
		if cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}

		for name, choices := range values {
			if cmd.Flags().Lookup(name) != nil {
				cli.Complete(cmd, name, choices...)
			}
		}
	}
}
