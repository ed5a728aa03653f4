package kubevirt

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/hooks"
)

// patience bounds the start and the end of a sidecar, which take milliseconds.
const patience = 20 * time.Second

// sidecar is the program under test, running as the container of that name.
type sidecar struct {
	container string
	command   *exec.Cmd
	log       bytes.Buffer // read it only after the process has ended
}

// start starts a sidecar on a host of testdata, with a directory for its socket as
// in a pod: virt-launcher sees one directory per container.
func start(t *testing.T, container, host string, flags ...string) *sidecar {
	t.Helper()
	dir := filepath.Join(hooks.HookSocketsSharedDirectory, container)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &sidecar{container: container}
	s.command = exec.Command(os.Getenv(binaryVariable), append([]string{
		"--socket-dir", dir, "--sysfs", filepath.Join("..", "..", "testdata", "hosts", host+".txtar"),
	}, flags...)...)
	s.command.Env = []string{"CONTAINER_NAME=" + container}
	s.command.Stderr = &s.log
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.command.ProcessState == nil {
			if err := s.command.Process.Kill(); err != nil {
				t.Error(err)
			}
			if err := s.command.Wait(); err == nil {
				t.Errorf("%s exited by itself", container)
			}
		}
		if t.Failed() {
			lines := strings.SplitAfter(s.log.String(), "\n")
			t.Logf("end of the log of %s:\n%s", container, strings.Join(lines[max(0, len(lines)-20):], ""))
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ended waits for the process to exit and fails the test where its status is not 0,
// which would make the pod Failed.
func (s *sidecar) ended(t *testing.T) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.command.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", s.container, err)
		}
	case <-time.After(patience):
		t.Errorf("%s still runs %v after the request to exit", s.container, patience)
		if err := s.command.Process.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		<-done
	}
}

// launcher is KubeVirt's hook manager after it has found that many sidecars.
func launcher(t *testing.T, sidecars uint) hooks.Manager {
	t.Helper()
	manager := hooks.GetManager()
	if err := manager.Collect(sidecars, patience); err != nil {
		t.Fatalf("virt-launcher: %v", err)
	}
	return manager
}

func sample(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "samples", name))
	if err != nil {
		t.Fatal(err)
	}
	// The sample's vGPU gets the UUID of one of the host's.
	return bytes.ReplaceAll(data, []byte("aa618089-8b16-4d01-a136-25a0f3c73123"), []byte("4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"))
}

// sampleVMI reads a VMI into KubeVirt's type and gives it these annotations.
func sampleVMI(t *testing.T, name string, annotations map[string]string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(sample(t, name+".vmi.json"), vmi); err != nil {
		t.Fatal(err)
	}
	for key, value := range annotations {
		vmi.Annotations["hostdev.vm.kubevirt.io/"+key] = value
	}
	return vmi
}
