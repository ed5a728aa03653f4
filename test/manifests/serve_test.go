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
)

// The arguments that the policy puts together start the program, for every
// kustomization: a flag that it does not know would only show in a cluster.
func TestArgumentsServe(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "hook-sidecar")
	compile := exec.Command("go", "build", "-o", binary, "./cmd/hook-sidecar")
	compile.Dir = filepath.Join("..", "..")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, dir := range kustomizations(t) {
		if strings.HasSuffix(dir, "kubernetes-1.34") {
			continue // the same policy, see TestOverlays
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			after, err := newAPIServer(t, build(t, dir)).createPod(t, pod(t))
			if err != nil {
				t.Fatal(err)
			}
			serve(t, binary, after.Spec.InitContainers[len(after.Spec.InitContainers)-1])
		})
	}
}

// serve runs the program as the container says, but for the place of its
// socket, until it listens, and ends it as the kubelet does.
func serve(t *testing.T, binary string, c corev1.Container) {
	t.Helper()
	sockets, err := os.MkdirTemp("", "plugin") // short, for a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
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
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		said = append(said, lines.Text())
		if strings.Contains(lines.Text(), `"listening"`) {
			if err := command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := command.Wait(); err != nil || !strings.Contains(strings.Join(said, "\n"), sockets+"/hook.sock") {
		t.Errorf("%s %s: %v\n%s", binary, strings.Join(args, " "), err, strings.Join(said, "\n"))
	}
}
