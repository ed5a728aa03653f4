package kubevirt

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"kubevirt.io/kubevirt/pkg/hooks"

	"hook-sidecar/test/oracle"
	"hook-sidecar/test/program"
)

// binaryVariable names the environment variable with the program under test. It is
// set in the process that runs the tests.
const binaryVariable = "KUBEVIRT_TEST_BINARY"

// pluginDir is where virt-launcher looks for the sockets of plugins (KubeVirt
// virtwrap/plugins/sidecar.go, pluginSocketBaseDir).
const pluginDir = "/var/run/kubevirt-plugin"

// TestMain gives the tests a /run of their own: KubeVirt's client looks for
// sockets in /var/run and nowhere else. It builds the program and starts itself
// again in a mount namespace, which needs root.
func TestMain(m *testing.M) {
	if os.Getenv(binaryVariable) != "" {
		if err := mountRun(); err != nil {
			fmt.Fprintln(os.Stderr, "test/kubevirt:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "test/kubevirt: SKIPPED: a /run of its own needs root; run go test -exec 'sudo -E'")
		if os.Getenv(oracle.RequireVariable) == "1" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	code, err := again()
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/kubevirt:", err)
		code = 1
	}
	os.Exit(code)
}

// again runs this test binary once more, in a mount namespace.
func again() (code int, err error) {
	dir, err := os.MkdirTemp("", "hook-sidecar")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary := filepath.Join(dir, "hook-sidecar")
	if err := program.Build(binary, filepath.Join("..", "..")); err != nil {
		return 1, err
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	tests := exec.Command(self, os.Args[1:]...)
	tests.Env = append(os.Environ(), binaryVariable+"="+binary)
	tests.Stdin, tests.Stdout, tests.Stderr = os.Stdin, os.Stdout, os.Stderr
	tests.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	err = tests.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

func mountRun() error {
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount a tmpfs on /run: %w", err)
	}
	return errors.Join(os.MkdirAll(hooks.HookSocketsSharedDirectory, 0o755), os.MkdirAll(pluginDir, 0o755))
}
