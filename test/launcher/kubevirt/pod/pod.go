//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/kubevirt/pkg/hooks"

	v1 "kubevirt.io/api/core/v1"
)

const (
	share        = "/run/kubevirt"
	pluginSocket = "/var/run/kubevirt-plugin/hostdev/hook.sock"
	nvram        = "/var/lib/libvirt/qemu/nvram" // of UEFI (KubeVirt pkg/util/util.go)
	// what would be on its disk (../../testdata/xorrisofs)
	cloudInit  = out + "/cloud-init"
	kernelBoot = share + "/container-disks/kernel-boot"
	// endsWithin bounds the end of a container, which takes seconds, and the
	// readiness of the launcher, which takes a minute where all is emulated.
	endsWithin = 60 * time.Second
	readyAfter = 4 * time.Minute
)

type pod struct {
	config
	began      time.Time
	vmi        *v1.VirtualMachineInstance
	containers []*container
	witnesses  []*witness
	result     result
}

// took prints when something was done.
func (p *pod) took(what string) {
	fmt.Println("POD", time.Since(p.began).Round(100*time.Millisecond), what)
}

// play runs the pod until the VM is gone.
func (p *pod) play() error {
	p.vmi = &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(p.VMI, p.vmi); err != nil {
		return fmt.Errorf("read the VMI: %w", err)
	}

	for _, step := range []func() error{volumes, p.network, p.sidecars, p.launcher} {
		if err := step(); err != nil {
			return err
		}
	}

	return p.handle()
}

// volumes returns the pod's (KubeVirt pkg/virt-controller/services/rendervolumes.go).
func volumes() error {
	for _, m := range []mount{
		{"tmpfs", "/run", "tmpfs", 0, "mode=755"}, {"tmpfs", "/tmp", "tmpfs", 0, "mode=1777"},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}

	err := makeAll(out, cloudInit, share+"/sockets", share+"/hotplug-disks", kernelBoot,
		"/run/kubevirt-private", "/run/kubevirt-ephemeral-disks",
		"/run/kubevirt-hooks", filepath.Dir(pluginSocket), "/run/libvirt", "/run/lock",
		"/etc/libvirt/hooks", "/var/log/libvirt", nvram)

	// What virt-handler mounts of a kernelBoot container, and the pipe to it.
	for _, name := range []string{"vmlinuz", "initramfs"} {
		data, readErr := os.ReadFile(filepath.Join(lab, name))
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(kernelBoot, name), data, 0o644))
	}

	err = errors.Join(err, os.Symlink("domain-notify.sock", share+"/domain-notify-pipe.sock"),
		os.WriteFile("/etc/libvirt/virtlogd.conf", nil, 0o644),
		os.WriteFile("/etc/machine-id", []byte("0123456789abcdef0123456789abcdef\n"), 0o644))

	for _, dir := range []string{
		share, "/run/kubevirt-private", "/run/kubevirt-ephemeral-disks", "/run/kubevirt-hooks",
		"/run/kubevirt-plugin", "/run/libvirt", filepath.Dir(nvram), cloudInit,
	} {
		err = errors.Join(err, own(dir))
	}

	// virt-handler does it for virtqemud (AdjustResources). Only passthrough needs it,
	// and some machines' root may not.
	if limitErr := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{
		Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY,
	}); limitErr != nil {
		fmt.Println("POD lock memory:", limitErr)
	}

	return err
}

func own(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, user, user))
	})
}

// network does phase 1 of masquerade, as virt-handler does (KubeVirt
// pkg/network/setup/netpod).
func (p *pod) network() error {
	for command := range strings.Lines(`link set lo up
link add eth0 type veth peer name peer0
addr add 10.244.0.5/24 dev eth0
link add k6t-eth0 address 02:00:00:00:00:00 type bridge
addr add 10.0.2.1/24 dev k6t-eth0
tuntap add mode tap user 107 group 107 name tap0
link set tap0 master k6t-eth0
link set eth0 up
link set peer0 up
link set k6t-eth0 up
link set tap0 up
`) {
		if text, err := exec.Command("/usr/sbin/ip",
			strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.TrimSpace(command), err, text)
		}
	}

	// virt-launcher-monitor asks for Istio's proxy, and again for 8 s where nothing
	// answers (KubeVirt cmd/virt-launcher-monitor, istioProxyPresent).
	listener, err := net.Listen("tcp", "127.0.0.1:15021")
	if err != nil {
		return err
	}

	go http.Serve(listener, http.NotFoundHandler())
	if p.Network == "" {
		return nil
	}

	return errors.Join(os.MkdirAll("/etc/podinfo", 0o755),
		os.WriteFile("/etc/podinfo/network-info", []byte(p.Network), 0o644))
}

// sidecars starts the containers beside the launcher. virt-launcher calls the hooks
// in the order in which it finds their sockets, and of those that are there at once in
// the order of their directories, whatever their priority (KubeVirt
// pkg/hooks/manager.go). So that one witness is before the hook under test and one
// after it, all are there when the launcher starts.
func (p *pod) sidecars() error {
	for _, w := range []*witness{
		{pod: p, container: "hook-sidecar-0", keeps: "input"},
		{pod: p, container: "hook-sidecar-2", keeps: "answer"},
	} {
		p.witnesses = append(p.witnesses, w)
		if err := w.serve(); err != nil {
			return err
		}
	}

	for name, flags := range p.hooks() {
		if err := p.startHook(name, flags); err != nil {
			return err
		}
	}

	if p.Plugin != nil {
		return p.startPlugin()
	}

	return nil
}

// hooks returns the flags of the hook sidecars, by container.
func (p *pod) hooks() map[string][]string {
	all := map[string][]string{"hook-sidecar-1": p.Hook, "hook-sidecar-1b": p.Second}
	maps.DeleteFunc(all, func(_ string, flags []string) bool { return flags == nil })
	return all
}

// startHook starts a hook sidecar. It sees a directory of its own (SubPath).
func (p *pod) startHook(name string, flags []string) error {
	dir := filepath.Join(hooks.HookSocketsSharedDirectory, name)
	if err := errors.Join(os.MkdirAll(dir, 0o755), own(dir)); err != nil {
		return err
	}

	if err := p.start(name, nil,
		append([]string{
			lab + "/hook-sidecar", "serve", "--socket-dir", dir,
		}, flags...)...); err != nil {
		return err
	}

	return until(endsWithin, func() error {
		entries, err := os.ReadDir(dir)
		if err == nil && len(entries) == 0 {
			err = errors.New("no socket in " + dir)
		}
		return err
	})
}

func (p *pod) startPlugin() error {
	return p.start("plugin", nil,
		append([]string{
			lab + "/hook-sidecar", "serve", "--socket-dir=", "--plugin-socket=" + pluginSocket,
		}, p.Plugin...)...)
}

// launcher starts virt-launcher's container as virt-controller describes it
// (KubeVirt pkg/virt-controller/services/template.go).
func (p *pod) launcher() error {
	count := len(p.witnesses) + len(p.hooks())

	// newContainerSpecRenderer, WithNonRoot
	env := append([]string{"POD_NAME=virt-launcher-testvm-x", "HOME=/",
		"XDG_CACHE_HOME=/var/run/kubevirt-private",
		"XDG_CONFIG_HOME=/var/run/kubevirt-private", "XDG_RUNTIME_DIR=/var/run"}, p.Env...)

	return p.start("compute", env, "/usr/bin/virt-launcher-monitor", "--qemu-timeout", "300s",
		"--name", p.vmi.Name, "--uid", string(p.vmi.UID),
		"--namespace", p.vmi.Namespace, "--kubevirt-share-dir", "/var/run/kubevirt",
		"--ephemeral-disk-dir", "/var/run/kubevirt-ephemeral-disks",
		"--container-disk-dir", "/var/run/kubevirt/container-disks", "--grace-period-seconds", "45",
		"--hook-sidecars", fmt.Sprint(count),
		"--ovmf-path", "/usr/share/OVMF", "--disk-memory-limit", "2097152000", "--hypervisor",
		"kvm", "--run-as-nonroot", "--allow-emulation")
}

// end waits for the containers. The kubelet stops those of hooks when it deletes the
// pod, and a plugin's when the others are done.
func (p *pod) end() error {
	defer p.took("end")
	for _, c := range p.containers {
		patience := endsWithin
		if c.name == "plugin" {
			patience = 0
		}

		if !c.ended(patience) {
			p.result.Running = append(p.result.Running, c.name)
			if err := c.signal(syscall.SIGTERM); err != nil {
				return err
			}
			if !c.ended(endsWithin) {
				return fmt.Errorf("%s does not end", c.name)
			}
		}

		p.result.Ends[c.name] = c.status()
	}

	for _, w := range p.witnesses {
		p.result.Shutdown = p.result.Shutdown || w.wasShutDown()
	}

	var err error
	p.result.Left, err = sockets()
	return errors.Join(err, p.save())
}

// sockets returns the hook's own that are left.
func sockets() ([]string, error) {
	hook, err := filepath.Glob(filepath.Join(hooks.HookSocketsSharedDirectory, "hook-sidecar-1*",
		"*"))
	plugin, pluginErr := filepath.Glob(filepath.Join(filepath.Dir(pluginSocket), "*"))
	return append(hook, plugin...), errors.Join(err, pluginErr)
}

// save keeps what the pod has written.
func (p *pod) save() error {
	console, err := os.ReadFile(p.console())
	if err == nil {
		err = os.WriteFile(filepath.Join(out, "console"), console, 0o644)
	}

	if errors.Is(err, os.ErrNotExist) {
		return nil
	}

	return err
}

func (p *pod) console() string {
	return filepath.Join("/run/kubevirt-private", string(p.vmi.UID), "virt-serial0-log")
}
