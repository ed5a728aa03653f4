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
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/reasons"
)

// socketDirectory is where KubeVirt mounts the directory of a sidecar's socket.
const socketDirectory = "/var/run/kubevirt-hooks"

// serveFlags are the flags of serve.
type serveFlags struct {
	socketDir, pluginSocket, sysfs string
	versions                       []string
	policy                         *cli.PolicyFlags
}

func (a *app) newServe() *cobra.Command {
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
		return a.serve(cmd.Context(), flags, cli.NoArguments(cmd, args))
	}

	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		flags.policy.ParseValid(a.words[1:])
		return a.serve(cmd.Context(), flags, cmd.Parent().FlagErrorFunc()(cmd, err))
	})

	return cmd
}

// serve answers calls. Wrong arguments do not end it: virt-launcher would wait minutes for the
// socket, without an event, and then fail the VM (KubeVirt pkg/hooks/manager.go,
// collectSideCarSockets).
func (a *app) serve(ctx context.Context, flags serveFlags, invalid error) error {
	a.fitIntoSidecar()
	a.logInBackground()
	log := newLog(a.Err)
	answerer, err := a.hookAnswerer(log, flags.sysfs, flags.policy)
	answerer.mutator.Limit = serveLimit()
	invalid = cmp.Or(invalid, err)
	for _, version := range flags.versions {
		if all := hooks.Versions(); invalid == nil && !slices.Contains(all, version) {
			invalid = cli.Failed("see hook-sidecar serve --help",
				fmt.Errorf("invalid --version %q: must be one of %s", version,
					strings.Join(all, ", ")))
		}
	}

	if invalid != nil {
		answerer.mutator.Invalid = fmt.Errorf("the arguments of the hook are wrong: %w (%s)",
			invalid, reasons.HintOf(invalid))
		log.Error("no domain will be changed", "error", answerer.mutator.Invalid)
	}

	config := hooks.Config{
		Mutator: answerer, Logger: log, Versions: flags.versions, PluginSocket: flags.pluginSocket,
	}

	// A flag decides, because the VMI is unknown when virt-launcher calls Info.
	// Announced, the call affects all VMs (hooks.Config.CloudInit).
	if answerer.announcesCloudInit() {
		config.CloudInit = answerer.cloudInit
	}

	if flags.socketDir != "" {
		config.HookSocket = filepath.Join(flags.socketDir,
			hooks.SocketName(a.Environ.Variable("CONTAINER_NAME")))
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
		return cli.Failed("give each server its own CONTAINER_NAME, --socket-dir or --plugin-socket", err)
	}

	return err
}

// KubeVirt gives a sidecar 64 MB (61 MiB) when the VM has dedicated CPUs, and a VM cannot
// ask for more (pkg/virt-controller/services/renderresources.go, sidecarResources). A
// sidecar that needs more is killed, and its VM does not start. So serve limits its input;
// test/sidecar measures its memory.
const (
	// memoryLimit is the soft limit of the garbage collector in bytes, unless GOMEMLIMIT is
	// set. The rest is for allocations while it runs.
	memoryLimit = 32 << 20

	// collectAt is the growth of memory, in percent, that starts the garbage collector,
	// unless GOGC is set. With Go's 100 it took a fifth of a call with 64 devices; it runs
	// after each call in any case.
	collectAt = 200

	// maxDomain, maxMarks and maxHostdevs limit domains, see domain.Limit. They are about ten
	// times what a VM with 64 devices has.
	maxDomain = 2 << 20
	maxMarks  = 50_000

	// maxHostdevs is four times the maximum of a guest with a port for each device:
	// libvirt's highest index of a PCI controller is 255.
	maxHostdevs = 1024
)

// serveLimit returns the limit of domains in serve.
func serveLimit() domain.Limit {
	return domain.Limit{
		Bytes: maxDomain, Marks: maxMarks, Hostdevs: maxHostdevs, Result: hooks.MaxReply,
	}
}

// warnOfLimit warns of a domain that serve returns unchanged. Other commands have no limit.
func (a *app) warnOfLimit(domain []byte) {
	if err := serveLimit().Check(domain); err != nil {
		a.Say("warning: serve would return this domain unchanged: %v", err)
	}
}

// fitIntoSidecar makes the garbage collector keep memory under memoryLimit and run between
// calls. serve runs on one processor, because a sidecar has a share of one: with two, most
// calls take some 5% longer, because threads wake each other.
func (a *app) fitIntoSidecar() {
	if a.Environ.Variable("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}

	if a.Environ.Variable("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}

	if a.Environ.Variable("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}
