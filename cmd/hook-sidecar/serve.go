package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/hooks"
)

// socketDirectory is where KubeVirt mounts the directory of a sidecar's socket.
const socketDirectory = "/var/run/kubevirt-hooks"

func (a *app) newServe() *cobra.Command {
	var socketDir, pluginSocket, sysfs string
	var versions, lock []string
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

Exit status:
  0  ended by virt-launcher or by a signal
  2  usage error, or a socket cannot be served`,
		Example: `  hook-sidecar --version v1alpha3
  hook-sidecar serve --layout mirror --lock strict
  hook-sidecar serve --socket-dir "" --plugin-socket /var/run/kubevirt-plugin/hostdev/hook.sock`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&socketDir, "socket-dir", socketDirectory, "directory of the hook socket; \"\" serves no hooks")
	flags.StringSliceVar(&versions, "version", nil, "hook versions to serve: v1alpha1, v1alpha2, v1alpha3 (default all)")
	flags.StringVar(&pluginSocket, "plugin-socket", "", "socket for structured plugins")
	addSysfsFlag(flags, &sysfs)
	addLockFlag(flags, &lock)
	policy := addPolicyFlags(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a.fitIntoSidecar()
		a.logInBackground()
		log := newLog(a.Err)
		answerer, err := a.hookAnswerer(log, sysfs, lock, policy)
		if err != nil {
			return err
		}
		defer answerer.wait()
		answerer.mutator.Limit = serveLimit()
		config := hooks.Config{
			Mutator: answerer, Logger: log, Versions: versions,
			PluginSocket: pluginSocket,
		}
		// A flag decides, because the VMI is unknown when virt-launcher calls Info.
		// Announced, the call affects all VMs (hooks.Config.CloudInit).
		if answerer.announcesCloudInit() {
			config.CloudInit = func(call hooks.CloudInitCall) []byte { return answerer.cloudInit(log, call) }
		}
		if socketDir != "" {
			config.HookSocket = filepath.Join(socketDir, hooks.SocketName(a.Environ.Variable("CONTAINER_NAME")))
		}
		return serveFailure(hooks.New(config).Run(untilSignal(cmd.Context())))
	}
	return cmd
}

// serveFailure adds a hint to the error of a socket that cannot be served.
func serveFailure(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Failed("KubeVirt mounts the directory of the socket; elsewhere, set --socket-dir, or see hook-sidecar --help for other commands", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return cli.Failed("give this user write permission to the directory of the socket, or set --socket-dir or --plugin-socket", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return cli.Failed("give each server its own CONTAINER_NAME, --socket-dir or --plugin-socket", err)
	}
	return err
}
