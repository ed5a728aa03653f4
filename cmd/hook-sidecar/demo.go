package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/report"
	"hook-sidecar/testdata"
)

func (a *app) newDemo() *cobra.Command {
	var showDiff bool
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Run the hook on built-in samples, without a cluster or a GPU",
		Long: `demo starts the server on a temporary socket and calls it as virt-launcher does,
with a domain that KubeVirt made for eight GPUs and eight NICs and a snapshot of
a two-socket host. It prints how much of the host the guest sees without the
hook, and what explain shows of the result.

Exit status:
  0  success
  2  failure`,
		Example: `  hook-sidecar demo
  hook-sidecar demo --layout mirror
  hook-sidecar demo --diff`,
	}
	cmd.Flags().BoolVar(&showDiff, "diff", false, "print what the hook changes in the domain first")
	policy := cli.AddPolicyFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		sample, err := readSample(policy)
		if err != nil {
			return err
		}
		return a.demo(untilSignal(cmd.Context()), sample, showDiff)
	}
	return cmd
}

// sample is the input of demo.
type sample struct {
	mutator plan.Planner
	request plan.Request
}

func readSample(flags *cli.PolicyFlags) (sample, error) {
	source, err := flags.Given()
	if err != nil {
		return sample{}, err
	}
	s := sample{mutator: plan.Planner{Source: source}}
	var snapshot []byte
	for name, to := range map[string]*[]byte{
		testdata.DemoHost: &snapshot, testdata.DemoDomain: &s.request.Domain, testdata.DemoVMI: &s.request.VMI,
	} {
		if *to, err = testdata.Demo.ReadFile(name); err != nil {
			return s, err
		}
	}
	s.mutator.Sysfs, err = host.ParseSnapshot(snapshot)
	return s, err
}

// demo serves the sample on a socket, calls it and prints the result.
func (a *app) demo(ctx context.Context, s sample, showDiff bool) (err error) {
	dir, err := os.MkdirTemp("", "hook-sidecar")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	domain, err := serveAndCall(ctx, filepath.Join(dir, "hook.sock"), s)
	if err != nil {
		return err
	}
	vm := s.mutator.Read(s.request)
	before, after := vm.Current().Plan, vm.Plan()
	var out bytes.Buffer
	if showDiff {
		out.Write(colouredDiff(diff.Diff("a/domain.xml", s.request.Domain, "b/domain.xml", domain), a.Style("")))
	} else {
		fmt.Fprintf(&out, "without the hook: %s\nwith it:          ", strings.Join(report.Headline(before, before), "; "))
	}
	if err := report.New(after.Plan, after.Changed(), after.Err).WriteText(&out, a.Style("")); err != nil {
		return err
	}
	if !showDiff {
		out.WriteString("\nIts XML: hook-sidecar demo --diff. For your VM: hook-sidecar explain --domain vm.xml --vmi vmi.json\n")
	}
	return a.Write("", out.Bytes())
}

// serveAndCall runs the server for one call of virt-launcher, and returns the domain that the
// client received.
func serveAndCall(ctx context.Context, socket string, s sample) (domain []byte, err error) {
	log := slog.New(slog.DiscardHandler)
	answerer := answerer{mutator: s.mutator, log: log, logs: &sync.WaitGroup{}}
	server := hooks.New(hooks.Config{Mutator: answerer, Logger: log, HookSocket: socket})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() (err error) {
		defer stop()
		select {
		case <-server.Ready():
		case <-ctx.Done():
			return nil
		}
		domain, err = callHook(ctx, socket, false, s.request.Domain, s.request.VMI, func(string, time.Duration) {})
		return err
	})
	err = group.Wait()
	return domain, err
}
