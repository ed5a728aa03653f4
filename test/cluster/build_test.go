//go:build linux && lane

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/e2e"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/program"
)

const (
	kubernetes    = "v1.37.2"
	kubevirt      = "v1.9.0"
	kubevirtImage = "localhost/kubevirt:" + kubevirt
	hookImage     = "localhost/hook-sidecar:v1"
)

// images are those of Containerfile, by target.
var images = map[string]string{
	"kubevirt": kubevirtImage,
	"hook":     hookImage,
	"boot":     "localhost/boot:v1",
	"pause":    "localhost/pause:1",
}

// build builds the programs, the images and the first file system of the emulated node,
// where they were not built before.
func (c *cluster) build(t *testing.T) {
	t.Helper()
	began := time.Now()
	for _, dir := range []string{"bin", "hook", "boot"} {
		expect.NoError(t, os.MkdirAll(c.cached(dir), 0o755))
	}

	const launcher = "../launcher"
	version := "-X k8s.io/component-base/version."
	c.goBuild(t, "../kubectl", "k8s.io/kubernetes/cmd/",
		"kubelet kube-apiserver kube-controller-manager kube-scheduler kubectl kubeadm",
		"-ldflags=-s -w "+version+"gitVersion="+kubernetes+" "+version+"gitMajor=1 "+version+
			"gitMinor=37")

	c.goBuild(t, launcher+"/kubevirt", "kubevirt.io/kubevirt/cmd/", `virt-operator virt-api virt-controller virt-handler virt-chroot virt-exportproxy
virt-launcher virt-launcher-monitor virt-launcher/libvirt-hook-client virt-tail virt-probe virt-freezer sidecars`, "-ldflags=-s -w", "-trimpath", "-tags=libvirt_dlopen")
	c.goBuild(t, launcher+"/kubevirt", "./", "operator virtctl", "-trimpath")
	c.goBuild(t, "../../tools", "sigs.k8s.io/kustomize/kustomize/", "v5")
	source := run(t, "go", "-C", launcher+"/kubevirt", "list", "-m", "-f", "{{.Dir}}",
		"kubevirt.io/kubevirt")
	run(t, "gcc", "-static", "-O2", "-o", c.cached("bin/container-disk"), source+
		"/cmd/container-disk-v2alpha/main.c")
	run(t, "gcc", "-static", "-O2", "-o", c.cached("bin/pause"), "testdata/pause.c")
	expect.NoError(t,
		program.BuildPackage(c.cached("bin/kubectl-hostdev"), "../..", "./cmd/kubectl-hostdev"))
	expect.NoError(t, program.Build(c.cached("hook/hook-sidecar"), "../.."))
	if err := os.Symlink("hook-sidecar", c.cached("hook/onDefineDomain")); err != nil &&
		!os.IsExist(err) {
		t.Fatal(err)
	}

	t.Logf("programs built in %v", time.Since(began).Round(time.Second))

	kernel := os.Getenv(boot.KernelVariable)
	guest := boot.GuestInitramfs(kernel)
	guest.Binary = c.cached("hook/hook-sidecar") // for the guest's own snapshot
	expect.NoError(t, guest.Write(c.cached("boot/initramfs")))
	expect.NoError(t, os.RemoveAll(c.cached("boot/initramfs.init")))
	file, err := boot.KernelIn(kernel)
	expect.NoError(t, err)
	run(t, "cp", file, c.cached("boot/vmlinuz"))
	modules := "virtio_net crc32c_generic ext4 bridge br_netfilter veth tun vhost_net nf_tables " +
		"nft_chain_nat nft_ct nft_masq nft_nat nft_redir nft_compat xt_comment xt_conntrack " +
		"xt_mark xt_MASQUERADE xt_nat xt_addrtype"
	expect.NoError(t,
		e2e.Initramfs(c.image, strings.Fields(modules)...).Write(c.cached("initramfs")))
	for target, name := range images {
		c.buildImage(t, target, name, source)
	}

	t.Logf("images built in %v", time.Since(began).Round(time.Second))
}

func (c *cluster) goBuild(t *testing.T, module, prefix, names string, flags ...string) {
	t.Helper()
	args := append([]string{"-C", module, "build", "-o", c.cached("bin") + "/"}, flags...)
	for _, name := range strings.Fields(names) {
		args = append(args, prefix+name)
	}

	run(t, "go", args...)
}

// buildImage builds an image and writes its archive.
func (c *cluster) buildImage(t *testing.T, target, name, kubevirtSource string) {
	t.Helper()
	buildah := func(args ...string) {
		run(t, "buildah",
			append([]string{
				"--root", c.cached("store"), "--runroot", c.cached("store-run"),
				"--storage-driver", "overlay",
			}, args...)...)
	}

	launcher, err := filepath.Abs("../launcher/testdata")
	expect.NoError(t, err)
	buildah("build", "--quiet", "--layers", "--isolation", "chroot", "--build-context", "source="+
		kubevirtSource, "--build-context", "launcher="+launcher, "--build-context",
		"testdata=testdata",
		"--file", "Containerfile", "--target", target, "--tag", name, c.dir)

	archive := c.archive(target)
	expect.NoError(t, os.RemoveAll(archive))
	expect.NoError(t, os.MkdirAll(filepath.Dir(archive), 0o755))
	buildah("push", "--quiet", name, "docker-archive:"+archive+":"+name)
}

func (c *cluster) archive(target string) string { return c.cached("images/" + target + ".tar") }

// run runs a command and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	command := exec.Command(name, args...)
	var errs strings.Builder
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, out, errs.String())
	}

	return strings.TrimSpace(string(out))
}
