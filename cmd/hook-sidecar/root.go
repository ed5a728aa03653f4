package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments refuses an argument that is no flag, for no command takes one.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return failure{exitFailed, fmt.Errorf("unknown command %q", args[0]), fmt.Sprintf("see %s --help", cmd.CommandPath())}
	}
	hint := fmt.Sprintf("files are named by flags, see %s --help", cmd.CommandPath())
	if args[0] == "true" || args[0] == "false" {
		hint = "a flag that is true or false takes its value behind =, as in --strict=" + args[0]
	}
	return failure{exitFailed, fmt.Errorf("unexpected argument %q", args[0]), hint}
}

// streams are standard input, output and error. Data goes to out; everything
// that is said goes to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// app is what the commands are made of; nothing of it is global.
type app struct {
	streams
	environ []string
}

// run is main without the process: arguments and environment in, exit code out.
func run(ctx context.Context, args, environ []string, s streams) int {
	a := &app{streams: s, environ: environ}
	root := a.newRoot()
	help := &keptError{to: a.out}
	root.SetOut(help)
	root.SetArgs(withCommand(args))
	err := completeValues(root)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	return a.tell(errors.Join(err, help.err))
}

// withCommand completes the arguments with the command that they leave out:
// the name of KubeVirt's sidecar-shim contract when called by it, else serve
// when the first argument is a flag, as KubeVirt passes a sidecar's args.
func withCommand(args []string) []string {
	name, rest := filepath.Base(args[0]), args[1:]
	switch {
	case name == onDefineDomainName:
		return append([]string{onDefineDomainName}, rest...)
	case len(rest) == 0:
		return []string{"serve"}
	case rest[0] == "-h" || rest[0] == "--help":
		return rest
	case strings.HasPrefix(rest[0], "-"):
		return append([]string{"serve"}, rest...)
	}
	return rest
}

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "hook-sidecar [command] [flags]",
		Short: "Put passthrough devices where they belong inside a KubeVirt VM",
		Long: `hook-sidecar rewrites a libvirt domain so that every passthrough device stands
where the host's hardware says it should in the guest's PCI Express tree: on its
NUMA node, behind its PCIe root, below its switch. It can say why.

Without a command it serves, which is how KubeVirt starts a hook sidecar.

Exit status: that of the command; 2 where the command or a flag is not known.`,
		Example: `  hook-sidecar demo
  hook-sidecar mutate --domain vm.xml --vmi vmi.json --diff`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetIn(a.in)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return failure{exitFailed, flagError(err), fmt.Sprintf("see %s --help", cmd.CommandPath())}
	})
	root.AddCommand(a.newServe(), a.newOnDefineDomain(), a.newMutate(), a.newExplain(), a.newDoctor(), a.newSnapshot(), a.newCall(), a.newDemo(), a.newCompletion(), a.newVersion())
	return root
}

// The exit codes, those of diff(1) and one more.
const (
	exitDone    = 0
	exitChanged = 1 // --diff or --check found a change, doctor a FAIL
	exitFailed  = 2 // usage, bad input, failure
	exitRefused = 3 // refused by strict policy
)

// exitStatus is the part of a command's help that says what it returns.
const exitStatus = `Exit status:
  0  done, or no change under --diff and --check
  1  --diff or --check found a change
  2  usage, bad input, failure
  3  refused by strict policy`

// failure ends the program with a code. The hint says what to do about it.
type failure struct {
	code int
	err  error
	hint string
}

func (f failure) Error() string { return f.err.Error() }

func (f failure) Unwrap() error { return f.err }

// errChanged ends the program with exitChanged and says nothing.
var errChanged = errors.New("there is a change")

// tell says what went wrong and returns the exit code for it.
func (a *app) tell(err error) int {
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errChanged) {
		return exitChanged
	}
	fmt.Fprintf(a.err, "hook-sidecar: error: %v\n", err)
	var f failure
	if !errors.As(err, &f) {
		return exitFailed
	}
	if f.hint != "" {
		fmt.Fprintf(a.err, "hook-sidecar: hint: %s\n", f.hint)
	}
	return f.code
}
