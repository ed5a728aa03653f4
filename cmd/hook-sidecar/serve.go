package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/hooks"
)

func (a *app) newServe() *cobra.Command {
	var socketDir, pluginSocket, sysfs string
	var versions, lock []string
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve KubeVirt's hooks on a socket",
		Long: `serve answers virt-launcher until it is told to shut down: KubeVirt's hooks
v1alpha1 to v1alpha3 on a socket of its own below --socket-dir, and structured
plugins (KubeVirt 1.9) on --plugin-socket. The log is JSON on standard error, a
line a call and a line a device.

It fits into the 61 MiB that KubeVirt gives a sidecar: requests end at 8 MiB, a
domain of over 2 MiB goes back unchanged, calls are answered one at a time, and
GOMEMLIMIT is 48MiB where it is not set.

Exit status:
  0  shut down by virt-launcher or by a signal
  2  usage, or the socket cannot be served`,
		Example: `  hook-sidecar --version v1alpha3
  hook-sidecar serve --layout mirror --lock strict
  hook-sidecar serve --socket-dir "" --plugin-socket /var/run/kubevirt-plugin/hostdev/hook.sock`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&socketDir, "socket-dir", "/var/run/kubevirt-hooks", "folder of the hook socket; \"\": serve no hooks")
	flags.StringSliceVar(&versions, "version", nil, "hook versions to serve: v1alpha1, v1alpha2, v1alpha3 (default all)")
	flags.StringVar(&pluginSocket, "plugin-socket", "", "socket of the structured plugin service")
	flags.StringVar(&sysfs, "sysfs", "/sys", "the host: a /sys folder or a snapshot file")
	flags.StringSliceVar(&lock, "lock", nil, "keys of the policy whose annotation does not count")
	policy := addPolicyFlags(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a.limitMemory()
		log := slog.New(slog.NewJSONHandler(a.err, nil))
		m, closer, err := a.hookMutator(log, sysfs, lock, policy)
		if err != nil {
			return err
		}
		m.Limit = serveLimit()
		config := hooks.Config{
			Mutator: answerer{log: log, mutator: m}, Logger: log, Versions: versions, PluginSocket: pluginSocket,
			MaxMessage: maxMessage,
		}
		if socketDir != "" {
			config.HookSocket = filepath.Join(socketDir, hooks.SocketName(a.variable("CONTAINER_NAME")))
		}
		err = errors.Join(hooks.New(config).Run(untilSignal(cmd.Context())), closer.Close())
		return serveFailure(err)
	}
	return cmd
}

// serveFailure says what to do about a socket that cannot be served.
func serveFailure(err error) error {
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "KubeVirt mounts the folder of the socket; elsewhere name one with --socket-dir, and see hook-sidecar --help for the other commands"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		hint = "let the user that this runs as write to the folder of the socket, or name another with --socket-dir or --plugin-socket"
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "give each server a CONTAINER_NAME of its own, or another --socket-dir or --plugin-socket"
	default:
		return err
	}
	return failure{exitFailed, err, hint}
}

// variable is a variable of the environment, "" when it is not set.
func (a *app) variable(name string) string {
	for _, entry := range a.environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
