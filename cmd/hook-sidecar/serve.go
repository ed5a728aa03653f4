package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/sidecar"
	"hook-sidecar/pkg/tools/cli"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	socketDir, pluginSocket, sysfs string
	versions                       []string
	policy                         *cli.PolicyFlags
}

// newServe returns the command serve. The arguments are those that it is called with.
func newServe(p *cli.Program, log *sidecar.Log, arguments []string) *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve KubeVirt's hooks on a socket",
		Long: `serve answers virt-launcher until virt-launcher or a signal ends it. It serves
KubeVirt's hooks v1alpha1 to v1alpha3 on a socket in --socket-dir, and structured
plugins (KubeVirt 1.9) on --plugin-socket. It logs JSON to standard error, one
line per call, device and warning.

It fits into the 61 MiB of memory that KubeVirt gives a sidecar: a request may
have 8 MiB, a domain of more than 2 MiB is returned unchanged, three connections
are accepted at a time, of which virt-launcher takes one, calls are handled one
at a time, and GOMEMLIMIT defaults to 32MiB.

With --nccl-topology=cloudinit it also asks virt-launcher for the VM's cloud-init
data. Such a VM needs a cloud-init volume: virt-launcher 1.9.0 panics without one.

With wrong arguments it returns each domain unchanged and logs why; with --strict it
refuses the call.

Exit status:
  0  ended by virt-launcher or by a signal
  2  a socket cannot be served`,
		Example: `  hook-sidecar --version v1alpha3
  hook-sidecar serve --layout mirror --lock strict
  hook-sidecar serve --socket-dir "" --plugin-socket /var/run/kubevirt-plugin/hostdev/hook.sock`,
	}

	cmd.Flags().StringVar(&flags.socketDir, "socket-dir", socketDirectory,
		"directory of the hook socket; \"\" serves no hooks")
	cmd.Flags().StringSliceVar(&flags.versions, "version", nil,
		"hook versions to serve: v1alpha1, v1alpha2, v1alpha3 (default all)")
	cmd.Flags().StringVar(&flags.pluginSocket, "plugin-socket", "", "socket for structured plugins")
	addSysfsFlag(cmd.Flags(), &flags.sysfs)
	flags.policy = cli.AddHookPolicyFlags(cmd.Flags())
	cmd.Args = cobra.ArbitraryArgs // serve carries the error of an argument
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return runServe(cmd.Context(), p, log, flags, cli.NoArguments(cmd, args))
	}

	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		flags.policy.ParseValid(arguments)
		return runServe(cmd.Context(), p, log, flags, cmd.Parent().FlagErrorFunc()(cmd, err))
	})

	return cmd
}

// serve answers calls. Wrong arguments do not end it: virt-launcher would wait minutes for the
// socket, without an event, and then fail the VM (KubeVirt pkg/hooks/manager.go,
// collectSideCarSockets).
func runServe(
	ctx context.Context, p *cli.Program, log *sidecar.Log, flags serveFlags, invalid error,
) error {
	sidecar.FitMemory(p.Environ.Variable)
	p.Err = log.Start(p.Err)
	hook, err := newSidecar(p, log, flags.sysfs, flags.policy)
	invalid = cmp.Or(invalid, err)
	for _, version := range flags.versions {
		if all := hooks.Versions(); invalid == nil && !slices.Contains(all, version) {
			invalid = cli.Failed("see hook-sidecar serve --help",
				fmt.Errorf("invalid --version %q: must be one of %s", version,
					strings.Join(all, ", ")))
		}
	}

	if invalid != nil {
		hook.Planner.Invalid = fmt.Errorf("the arguments of the hook are wrong: %w (%s)", invalid,
			reasons.HintOf(invalid))
		log.Error("no domain will be changed", "error", hook.Planner.Invalid)
	}

	config := hooks.Config{Versions: flags.versions, PluginSocket: flags.pluginSocket}
	if flags.socketDir != "" {
		config.HookSocket = filepath.Join(flags.socketDir,
			hooks.SocketName(p.Environ.Variable("CONTAINER_NAME")))
	}

	// serve alone cleans up after a signal, the other commands end at once. A second signal
	// does not interrupt that. The signals stay caught until the process ends: after Shutdown the
	// kubelet's may come last, and would decide the exit status.
	ctx, _ = signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	if err := hook.Serve(ctx, config); err != nil {
		return cmp.Or(invalid, serveFailure(err))
	}

	return nil
}

// newSidecar returns what answers the calls of serve and onDefineDomain, with the environment
// variables of this process. On an error of flags it has the valid ones.
//
// A host that cannot be opened is not an error, because the hook must not keep a VM from
// starting. Its devices have the reason no-sysfs.
func newSidecar(
	p *cli.Program, log *sidecar.Log, sysfs string, flags *cli.PolicyFlags,
) (sidecar.Sidecar, error) {
	planner, invalid := withoutHost(p, "", flags)
	planner.PhysBits = physBitsOf(sysfs)
	var err error
	if planner.Sysfs, err = openSysfs(p, sysfs); err != nil {
		log.Error("the host cannot be read, no device will be placed", "sysfs", sysfs, "error", err)
		planner.Sysfs = embed.FS{} // without any file
	}

	return sidecar.Sidecar{Planner: planner, Log: log}, invalid
}

// serveFailure adds a hint to the error of a socket that cannot be served.
func serveFailure(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Failed("KubeVirt mounts the directory of the socket; elsewhere, set "+
			"--socket-dir, or see hook-sidecar --help for other commands", err)

	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return cli.Failed("give this user write permission to the directory of the socket, or set "+
			"--socket-dir or --plugin-socket", err)

	case errors.Is(err, syscall.EADDRINUSE):
		return cli.Failed("give each server its own CONTAINER_NAME, --socket-dir or "+
			"--plugin-socket", err)
	}

	return err
}
