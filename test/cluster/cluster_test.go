//go:build linux && lane

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/e2e"
	"hook-sidecar/test/expect"
)

const (
	// directoryVariable names the environment variable with the directory of what is built.
	directoryVariable = "CLUSTER"
	// imageVariable names the one with what test/e2e/get-image has built.
	imageVariable = "E2E_IMAGE"

	// boots are how often the emulated node is started until its kubelet runs.
	boots = 6
	// patience bounds each start of a part of the cluster, of a VM and of its guest: 90 s on a fast
	// machine, six minutes on a slow one where two VMs start.
	patience = 15 * time.Minute
	// silence is how long a guest may print nothing: from its start to its first line one minute, or
	// five on a slow machine. A guest in a guest under emulation sometimes hangs.
	silence = 8 * time.Minute
	// again is how many VMs may be started once more.
	again = 3
)

// cluster is the cluster.
type cluster struct {
	dir   string // of what was built
	image string // Debian 13 and its kernel
	work  string // /lab of both nodes
	here  *exec.Cmd

	lost  int          // boots of the emulated node
	again atomic.Int32 // VMs that were started again
	ended <-chan error // the emulated node's end, once it has started
}

func (c *cluster) cached(name string) string { return filepath.Join(c.dir, name) }

// start brings the cluster up, until the end of the test.
func start(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dir: os.Getenv(directoryVariable), image: os.Getenv(imageVariable)}
	if c.dir == "" || c.image == "" || os.Getenv(boot.KernelVariable) == "" {
		t.Skipf("%s, %s and %s are not all set; `make cluster` sets them", directoryVariable,
			imageVariable, boot.KernelVariable)
	}

	if os.Geteuid() != 0 {
		t.Fatal("nodes take root")
	}

	c.build(t)
	began := time.Now()
	since := func(what string) { t.Logf("%s after %v", what, time.Since(began).Round(time.Second)) }
	c.work = c.cached("run")
	c.fillWork(t)
	c.startHere(t)
	run(t, "nsenter",
		c.inside("/lab/disk.sh", "/lab/disk", "/lab/images/pause.tar", "/lab/images/hook.tar",
			"/lab/images/boot.tar", "/lab/images/kubevirt.tar")...)

	since("disk of the node")
	booted := make(chan (<-chan error))
	go func() { booted <- c.boot(t) }()
	for _, target := range []string{"pause", "kubevirt"} {
		run(t, "nsenter",
			c.inside("ctr", "-n", "k8s.io", "images", "import", "/lab/images/"+target+".tar")...)
	}

	c.await(t, "node here", func() bool {
		return c.has("get", "node", "here", "--no-headers")(" Ready ")
	})

	since("node here")
	c.kubectl(t, "label", "node", "here", "node-role.kubernetes.io/control-plane=")
	c.kubectl(t, "create", "clusterrolebinding", "kubeadm:cluster-admins",
		"--clusterrole=cluster-admin", "--group=kubeadm:cluster-admins")
	// Since 1.37 the certificate of the API server's client names no group (kubeadm
	// app/phases/bootstraptoken/node/tlsbootstrap.go, AllowAPIServerToAccessKubeletAPI).
	c.kubectl(t, "create", "clusterrolebinding", "kubeadm:apiserver-kubelet-client",
		"--clusterrole=system:kubelet-api-admin", "--user=kube-apiserver-kubelet-client")
	c.apply(t, run(t, c.cached("bin/operator"), kubevirtImage, kubevirt), "--server-side")
	c.kubectl(t, "apply", "-f", "testdata/kubevirt.yaml")
	if c.ended = <-booted; c.ended == nil {
		t.Fatalf("%d boots of the emulated node were lost", c.lost)
	}

	c.await(t, "node node", func() bool {
		return c.has("get", "node", "node", "--no-headers")(" Ready ")
	})

	since("node node")
	c.await(t, "KubeVirt", func() bool {
		return c.has("get", "-n", "kubevirt", "kubevirt", "kubevirt", "--no-headers")("Deployed")
	})

	c.await(t, "devices", func() bool {
		has := c.has("get", "node", "node", "-o", "jsonpath={.status.allocatable}")
		// Of mediated devices virt-handler may offer fewer than it makes at the same time.
		return has(`"test.example/nvme":"5"`) && has(`"test.example/mdev"`) &&
			!has(`"test.example/mdev":"0"`)
	})

	since("KubeVirt with devices")
	return c
}

// fillWork makes the directory that both nodes have as /lab.
func (c *cluster) fillWork(t *testing.T) {
	t.Helper()
	expect.NoError(t, os.RemoveAll(c.work))
	expect.NoError(t, os.MkdirAll(filepath.Join(c.work, "log"), 0o755))
	for _, dir := range []string{"bin", "images"} {
		run(t, "cp", "-al", c.cached(dir), c.work)
	}

	scripts, err := filepath.Glob("testdata/*.sh")
	expect.NoError(t, err)
	run(t, "cp", append(scripts, c.work)...)
	expect.NoError(t, e2e.Share(c.work))
	config := filepath.Join(c.work, "kubeadm.yaml")
	expect.NoError(t, os.WriteFile(config, []byte(`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 10.199.0.1, bindPort: 443}
nodeRegistration: {name: here}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: `+kubernetes+`
controlPlaneEndpoint: 10.96.0.1:443
networking: {serviceSubnet: 10.96.0.0/16}
certificatesDir: `+c.pki("")+"\n"), 0o644))

	kubeadm := c.cached("bin/kubeadm")
	run(t, kubeadm, "init", "phase", "certs", "all", "--config", config)
	run(t, kubeadm, "init", "phase", "kubeconfig", "all", "--config", config, "--kubeconfig-dir",
		c.pki(""))

	for name, client := range map[string][]string{
		"here": {"system:node:here", "system:nodes"},
		"node": {"system:node:node", "system:nodes"},
		"user": {"user", "users"},
	} {
		text := run(t, kubeadm, "kubeconfig", "user", "--config", config, "--client-name",
			client[0], "--org", client[1])
		expect.NoError(t, os.WriteFile(c.pki(name+".conf"), []byte(text), 0o600))
	}
}

func (c *cluster) pki(name string) string { return filepath.Join(c.work, "pki", name) }

// startHere starts node here, in namespaces of its own.
func (c *cluster) startHere(t *testing.T) {
	t.Helper()
	log, err := os.Create(filepath.Join(c.work, "log", "here"))
	expect.NoError(t, err)
	c.here = exec.Command(filepath.Join(c.work, "here.sh"), c.work, filepath.Join(c.image, "root"),
		c.cached("node/upper"))
	c.here.Stdout, c.here.Stderr = log, log
	c.here.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}

	expect.NoError(t, c.here.Start())
	t.Cleanup(func() {
		c.here.Process.Kill() // the first process, with which all others end
		c.here.Wait()
		log.Close()

		// Of control groups with processes nothing is removed.
		exec.Command("find", "/sys/fs/cgroup", "-depth", "-type", "d", "-path", "*/k8s.io*",
			"-exec", "rmdir", "{}", "+").Run()
		if !t.Failed() {
			expect.NoError(t, os.RemoveAll(c.work))
		}
	})

	c.await(t, "containerd", func() bool {
		return exec.Command("nsenter", c.inside("ctr", "version")...).Run() == nil
	})
}

// inside returns nsenter's arguments for a command in node here.
func (c *cluster) inside(words ...string) []string {
	return append([]string{
		"-t", fmt.Sprint(c.here.Process.Pid), "-m", "-n", "-p", "-u", "-i", "-r", "-w", "env",
		"PATH=/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}, words...)
}

// boot boots the emulated node until its kubelet runs, and returns a channel for its end, nil
// where it does not come up. Under emulation a CPU may lose its timer while the kernel starts,
// and such a boot is begun again.
func (c *cluster) boot(t *testing.T) <-chan error {
	machine := e2e.Machine{
		Image: c.image, Initramfs: c.cached("initramfs"), Share: c.work,
		Programs: c.cached("node/layer.squashfs"),
		Cluster: &e2e.Cluster{
			Disk: filepath.Join(c.work, "disk"), Tap: "tap0", PID: c.here.Process.Pid,
		},
	}

	console := filepath.Join(c.work, "console")
	for range boots {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			_, err := machine.Boot(ctx)
			t.Logf("the emulated node has ended: %v", err)
			ended <- err
			close(ended)
		}()

		up := false
		for began := time.Now(); !up && len(ended) == 0 &&
			time.Since(began) < 3*time.Minute; time.Sleep(time.Second) {
			text, _ := os.ReadFile(console)
			up = strings.Contains(string(text), "kubelet started")
			if strings.Contains(string(text), "detected stalls") ||
				strings.Contains(string(text), "HOST-ERROR") {
				break
			}
		}

		if up {
			t.Cleanup(func() { cancel(); <-ended })
			return ended
		}

		cancel()
		err := <-ended
		text, _ := os.ReadFile(console)
		t.Logf("boot lost: %v\n%s", err, text[max(0, len(text)-1000):])
		if c.lost++; !errors.Is(err, boot.ErrLost) && !errors.Is(err, context.Canceled) {
			return nil
		}
	}

	return nil
}

// command returns a command that the user of a kubeconfig runs, in the network of the cluster.
func (c *cluster) command(user string, words ...string) *exec.Cmd {
	path := "PATH=" + c.cached("bin") + ":" + os.Getenv("PATH")
	return exec.Command("nsenter",
		append([]string{
			"-t", fmt.Sprint(c.here.Process.Pid), "-n", "env", path,
			"KUBECONFIG=" + c.pki(user+".conf"),
		}, words...)...)
}

// plugin returns a command of kubectl's plugin. An emulated node may take minutes for what a
// command in a pod asks.
func (c *cluster) plugin(user string, words ...string) *exec.Cmd {
	return c.command(user, append([]string{"kubectl", "hostdev", "--timeout=5m"}, words...)...)
}

const admin = "super-admin"

// kubectl runs kubectl as an administrator.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	command := c.command(admin, append([]string{"kubectl"}, args...)...)
	var errs strings.Builder
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}

	return strings.TrimSpace(string(out))
}

// has returns whether what kubectl prints contains a text.
func (c *cluster) has(args ...string) func(text string) bool {
	out, _ := c.command(admin, append([]string{"kubectl"}, args...)...).Output()
	return func(text string) bool { return strings.Contains(string(out), text) }
}

// apply applies objects.
func (c *cluster) apply(t *testing.T, objects string, args ...string) {
	t.Helper()
	command := c.command(admin, append([]string{"kubectl", "apply", "-f", "-"}, args...)...)
	command.Stdin = strings.NewReader(objects)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// await waits for something. It asks every five seconds, since logs and commands of the emulated
// node cost it as much as starting a VM.
func (c *cluster) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(5 * time.Second) {
		if done() {
			return
		}
		if len(c.ended) > 0 {
			t.Fatalf("%s: the emulated node is lost", what)
		}
	}

	t.Fatalf("%s: not there after %v", what, patience)
}
