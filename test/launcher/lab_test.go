//go:build linux && lane

package launcher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/program"
)

const (
	// buildVariable names the environment variable with the directory that has
	// virt-launcher's programs, and gets them.
	buildVariable = "LAUNCHER"
	// imageVariable names the one with what test/e2e/get-image has built.
	imageVariable = "E2E_IMAGE"

	// patience bounds one pod.
	patience = 6 * time.Minute
)

// lab is what all pods share.
type lab struct {
	root    string // of the pod: Debian 13 with libvirt and QEMU
	layer   string // above it: KubeVirt's programs and configuration
	files   string // for /lab: hook-sidecar and what the guest boots
	program string // hook-sidecar
}

// newLab builds what the pods run. It skips the test where `make launcher` did not
// start it.
func newLab(t *testing.T) lab {
	t.Helper()
	build, image, kernel := os.Getenv(buildVariable), os.Getenv(
		imageVariable), os.Getenv(boot.KernelVariable)
	if build == "" || image == "" || kernel == "" {
		t.Skipf("%s, %s and %s are not all set; `make launcher` sets them", buildVariable,
			imageVariable, boot.KernelVariable)
	}

	if os.Geteuid() != 0 {
		t.Skip("a pod's namespaces need root")
	}

	l := lab{root: filepath.Join(image, "root"), layer: build, files: t.TempDir()}
	l.program = filepath.Join(l.files, "hook-sidecar")
	expect.NoError(t, program.Build(l.program, filepath.Join("..", "..")))
	l.buildLauncher(t)
	guest := boot.GuestInitramfs(kernel)
	guest.Binary = l.program
	expect.NoError(t, guest.Write(filepath.Join(l.files, "initramfs")))
	file, err := boot.KernelIn(kernel)
	expect.NoError(t, err)
	copyFile(t, filepath.Join(l.files, "vmlinuz"), file)
	copyFile(t, filepath.Join(l.files, "plugin.yaml"),
		filepath.Join("..", "..", "manifests", "plugin", "plugin.yaml"))
	return l
}

// buildLauncher builds KubeVirt's programs into the layer, where Go has not built
// them before, and adds what KubeVirt's image has.
func (l lab) buildLauncher(t *testing.T) {
	t.Helper()
	const module, kubevirt = "kubevirt", "kubevirt.io/kubevirt"
	bin, etc := filepath.Join(l.layer, "usr", "bin"), filepath.Join(l.layer, "etc")
	for _, dir := range []string{
		bin, filepath.Join(l.layer, "usr", "sbin"), filepath.Join(l.layer, "usr", "share", "OVMF"),
		filepath.Join(etc, "libvirt"),
	} {
		expect.NoError(t, os.MkdirAll(dir, 0o755))
	}

	began := time.Now()
	goBuild(t, module, "CGO_ENABLED=1", "-trimpath", "-tags=libvirt_dlopen", "-ldflags=-s -w", "-o",
		bin, kubevirt+"/cmd/virt-launcher", kubevirt+"/cmd/virt-launcher-monitor")
	goBuild(t, module, "CGO_ENABLED=0", "-trimpath", "-ldflags=-s -w", "-o", bin, "./pod")
	t.Logf("virt-launcher built in %v", time.Since(began).Round(time.Second))
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", kubevirt)
	list.Dir = module
	source, err := list.Output()
	expect.NoError(t, err)
	for _, name := range []string{"qemu.conf", "virtqemud.conf"} {
		copyFile(t, filepath.Join(etc, "libvirt", name),
			filepath.Join(strings.TrimSpace(string(source)), "cmd", "virt-launcher", name))
	}

	copyFile(t, filepath.Join(l.layer, "usr", "sbin", "virtqemud"),
		filepath.Join("testdata", "virtqemud"))
	copyFile(t, filepath.Join(bin, "xorrisofs"), filepath.Join("testdata", "xorrisofs"))

	// KubeVirt's names of OVMF's files (pkg/virt-launcher/virtwrap/efi).
	for to, from := range map[string]string{
		"OVMF_CODE.fd": "OVMF_CODE_4M.fd", "OVMF_VARS.fd": "OVMF_VARS_4M.fd",
	} {
		copyFile(t, filepath.Join(l.layer, "usr", "share", "OVMF", to),
			filepath.Join(l.root, "usr", "share", "OVMF", from))
	}

	for name, line := range map[string]string{
		"passwd": "qemu:x:107:107::/:/sbin/nologin\n", "group": "qemu:x:107:\n",
	} {
		data, err := os.ReadFile(filepath.Join(l.root, "etc", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(etc, name), append(data, line...), 0o644)
		}
		expect.NoError(t, err)
	}
}

func goBuild(t *testing.T, dir, env string, args ...string) {
	t.Helper()
	build := exec.Command("go", append([]string{"build"}, args...)...)
	build.Dir, build.Env = dir, append(os.Environ(), env)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}

	expect.NoError(t, err)
}

// share returns a directory that becomes /lab, with these files too.
func (l lab) share(t *testing.T, p pod) string {
	t.Helper()
	dir := t.TempDir()
	expect.NoError(t, errors.Join(os.Mkdir(filepath.Join(dir, "out"), 0o755), os.Chmod(dir, 0o755)))
	for _, name := range []string{"hook-sidecar", "vmlinuz", "initramfs", "plugin.yaml"} {
		expect.NoError(t, os.Link(filepath.Join(l.files, name), filepath.Join(dir, name)))
	}

	for name, text := range p.files {
		file := filepath.Join(dir, name)
		expect.NoError(t,
			errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644)))
	}

	text, err := json.Marshal(p.config)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "pod.json"), text, 0o644)
	}

	expect.NoError(t, err)
	return dir
}

// here runs a pod in namespaces of this machine, and once more where its emulation fails: now and
// then a guest hangs before its kernel's first output.
func (l lab) here(t *testing.T, p pod) outcome {
	t.Helper()
	dir, log, err := l.runHere(t, p)
	if err != nil && bytes.Contains(log, []byte("HOST-HUNG")) {
		t.Logf("the pod runs once more: %v\n%s", err, log)
		dir, log, err = l.runHere(t, p)
	}

	if err != nil {
		t.Fatalf("the pod: %v\n%s\n%s", err, log, tail(filepath.Join(dir, "out", "compute.log")))
	}

	t.Logf("\n%s", log)
	return read(t, l, p, filepath.Join(dir, "out"))
}

// runHere runs a pod once, and returns its directory and what it printed.
func (l lab) runHere(t *testing.T, p pod) (dir string, log []byte, err error) {
	t.Helper()
	dir = l.share(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	command := exec.CommandContext(ctx, filepath.Join(l.layer, "usr", "bin", "pod"), "here", l.root,
		l.layer, dir)
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig: syscall.SIGKILL,
	}

	log, err = command.CombinedOutput()
	return dir, log, err
}

// tail returns the end of a log.
func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(data[max(0, len(data)-4000):])
}
