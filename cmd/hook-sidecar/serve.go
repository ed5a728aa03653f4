package main

import (
	"cmp"
	"context"
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

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/reasons"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	socketDir, pluginSocket, sysfs string
	versions                       []string
	policy                         *cli.PolicyFlags
}

// newServe returns the command serve. The arguments are those that it is called with.
func newServe(p *cli.Program, log *background, arguments []string) *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve KubeVirt's hooks on a socket",
		Long: `serve answers virt-launcher until virt-launcher or a signal ends it. It serves
KubeVirt's hooks v1alpha1 to v1alpha3 on a socket in --socket-dir, and structured
plugins (KubeVirt 1.9) on --plugin-socket. It logs JSON to standard error, one
line per call, device and warning.

It fits into the 61 MiB of memory that KubeVirt gives a sidecar: a request may
have 8 MiB, a domain of more than 2 MiB is returned unchanged, calls are handled
one at a time, and GOMEMLIMIT defaults to 32MiB.

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
	ctx context.Context, p *cli.Program, log *background, flags serveFlags, invalid error,
) error {
	fitIntoSidecar(p)
	logger := log.start(p)
	answerer, err := hookAnswerer(p, logger, &log.calls, flags.sysfs, flags.policy)
	answerer.planner.Limit = serveLimit()
	invalid = cmp.Or(invalid, err)
	for _, version := range flags.versions {
		if all := hooks.Versions(); invalid == nil && !slices.Contains(all, version) {
			invalid = cli.Failed("see hook-sidecar serve --help",
				fmt.Errorf("invalid --version %q: must be one of %s", version,
					strings.Join(all, ", ")))
		}
	}

	if invalid != nil {
		answerer.planner.Invalid = fmt.Errorf("the arguments of the hook are wrong: %w (%s)",
			invalid, reasons.HintOf(invalid))
		logger.Error("no domain will be changed", "error", answerer.planner.Invalid)
	}

	config := hooks.Config{
		Mutator: answerer, Logger: logger, Versions: flags.versions,
		PluginSocket: flags.pluginSocket,
	}

	// A flag decides, because the VMI is unknown when virt-launcher calls Info.
	// Announced, the call affects all VMs (hooks.Config.CloudInit).
	if answerer.announcesCloudInit() {
		config.CloudInit = answerer.cloudInit
	}

	if flags.socketDir != "" {
		config.HookSocket = filepath.Join(flags.socketDir,
			hooks.SocketName(p.Environ.Variable("CONTAINER_NAME")))
	}

	// serve alone cleans up after a signal, the other commands end at once. A second signal
	// does not interrupt that. The signals stay caught until the process ends: after Shutdown the
	// kubelet's may come last, and would decide the exit status.
	ctx, _ = signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	if err := hooks.New(config).Run(ctx); err != nil {
		return cmp.Or(invalid, serveFailure(err))
	}

	return nil
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
