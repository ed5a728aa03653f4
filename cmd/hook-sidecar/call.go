package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
)

func (a *app) newCall() *cobra.Command {
	var socket, domainFile, vmiFile, output string
	var plugin, showDiff bool
	cmd := &cobra.Command{
		Use:   "call --socket FILE --domain FILE --vmi FILE",
		Short: "Be virt-launcher: call a hook on its socket",
		Long: `call asks a hook for its versions and then to define a domain, with the limits
and the choice of version of virt-launcher, and prints the domain that comes
back. What the hook offers and how long each call took is on standard error.

Exit status:
  0  the hook answered, or no change under --diff
  1  --diff found a change
  2  usage, bad input, no answer
  3  the hook refuses the domain`,
		Example: `  hook-sidecar call --socket /var/run/kubevirt-hooks/hook.sock --domain vm.xml --vmi vmi.json --diff
  hook-sidecar call --plugin --socket hook.sock --domain vm.xml --vmi vmi.json`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&socket, "socket", "", "socket of the hook")
	flags.StringVarP(&domainFile, "domain", "d", "-", "libvirt domain XML, or a virt-launcher log with its base64 dump; - is standard input")
	flags.StringVar(&vmiFile, "vmi", "", "VirtualMachineInstance as JSON")
	flags.BoolVar(&plugin, "plugin", false, "call MutateDomain of the structured plugins instead of OnDefineDomain")
	flags.BoolVar(&showDiff, "diff", false, "print a unified diff instead of the domain")
	flags.StringVarP(&output, "output", "o", "", "write to this file, whole or not at all (default: standard output)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if socket == "" {
			return failure{exitFailed, errors.New("flag --socket is missing"), "see hook-sidecar call --help"}
		}
		req, err := a.readRequest(domainFile, vmiFile)
		if err != nil {
			return err
		}
		answer, steps, err := callHook(cmd.Context(), socket, plugin, req.Domain, req.VMI)
		for _, step := range steps {
			fmt.Fprintf(a.err, "hook-sidecar: %s answered in %.1f ms\n", step.what, float64(step.took.Microseconds())/1000)
		}
		if err != nil {
			return callFailure(err, plugin)
		}
		if !showDiff {
			return a.write(output, answer)
		}
		if err := a.write(output, diff.Diff("a/domain.xml", req.Domain, "b/domain.xml", answer)); err != nil {
			return err
		}
		return changeError(string(answer) != string(req.Domain))
	}
	return cmd
}

// step is a call that was answered.
type step struct {
	what string
	took time.Duration
}

// callHook calls a hook as virt-launcher does and says which calls it answered.
func callHook(ctx context.Context, socket string, plugin bool, domainXML, vmi []byte) (answer []byte, steps []step, err error) {
	client, err := hooks.Dial(ctx, socket)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	start := time.Now()
	if plugin {
		answer, err = client.MutateDomain(ctx, "Boot", domainXML, vmi)
		if err != nil {
			return nil, nil, err
		}
		return answer, []step{{"MutateDomain", time.Since(start)}}, nil
	}
	info, err := client.Info(ctx)
	if err != nil {
		return nil, nil, err
	}
	about := fmt.Sprintf("Info of %s with %s for %s", info.Name, strings.Join(info.Versions, ", "), strings.Join(info.HookPoints, ", "))
	steps = []step{{about, time.Since(start)}}
	version, err := info.Version()
	if err != nil {
		return nil, steps, err
	}
	start = time.Now()
	if answer, err = client.OnDefineDomain(ctx, version, domainXML, vmi); err != nil {
		return nil, steps, err
	}
	return answer, append(steps, step{"OnDefineDomain " + version + " of " + info.Name, time.Since(start)}), nil
}

func callFailure(err error, plugin bool) error {
	var refused *hooks.RefusedError
	switch {
	case errors.As(err, &refused):
		return failure{exitRefused, err, "the hook is strict; explain shows every device"}
	case status.Code(err) == codes.Unimplemented && plugin:
		return failure{exitFailed, err, "no structured plugin is served on this socket; a hook is called without --plugin"}
	case status.Code(err) == codes.Unimplemented:
		return failure{exitFailed, err, "no hook is served on this socket; a structured plugin is called with --plugin"}
	}
	return failure{exitFailed, err, ""}
}
