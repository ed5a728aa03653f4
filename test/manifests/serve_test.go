package manifests

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/program"
)

// TestArgumentsServe: the program starts with the arguments that the policy writes,
// for every kustomization, and finds nothing wrong with them.
func TestArgumentsServe(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "hook-sidecar")
	expect.NoError(t, program.Build(binary, filepath.Join("..", "..")))
	for _, overlay := range kustomizations(t) {
		if strings.HasSuffix(overlay, "kubernetes-1.34") {
			continue // the same policy, see TestOverlays
		}
		t.Run(filepath.Base(overlay), func(t *testing.T) {
			after, err := newAPIServer(t, build(t, overlay)).createPod(t, pod(t))
			expect.NoError(t, err)
			serve(t, binary, after.Spec.InitContainers[len(after.Spec.InitContainers)-1])
		})
	}
}

// serve runs the program as the container does, with its socket in another
// directory, until it listens, and stops it as the kubelet does.
func serve(t *testing.T, binary string, c corev1.Container) {
	t.Helper()
	sockets, err := os.MkdirTemp("", "plugin") // short: a socket's path has 107 bytes
	expect.NoError(t, err)
	defer func() {
		if err := os.RemoveAll(sockets); err != nil {
			t.Error(err)
		}
	}()

	var args []string
	for _, arg := range c.Args {
		args = append(args, strings.ReplaceAll(arg, c.VolumeMounts[0].MountPath, sockets))
	}

	command := exec.Command(binary, args...)
	stderr, err := command.StderrPipe()
	expect.NoError(t, err)
	expect.NoError(t, command.Start())
	var log []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		log = append(log, lines.Text())
		if strings.Contains(lines.Text(), `"listening"`) {
			if err := command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}

	whole := strings.Join(log, "\n")
	if err := command.Wait(); err != nil || !strings.Contains(whole, sockets+"/hook.sock") ||
		strings.Contains(whole, "are wrong") {
		t.Errorf("%s %s: %v\n%s", binary, strings.Join(args, " "), err, whole)
	}
}
