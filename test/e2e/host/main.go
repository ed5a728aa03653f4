//go:build linux

// Command host is the first process of the machine that stands for a KubeVirt
// node: it hands devices to vfio-pci, starts libvirt, and for each layout has the
// program under test place them in a domain, boots that, and leaves what it was
// told in /lab/out. See hook-sidecar/test/e2e for who starts it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"hook-sidecar/test/boot/pid1"
)

const (
	lab     = "/lab" // the folder that the test shares
	binary  = lab + "/hook-sidecar"
	sockets = "/run/hooks"
	console = "/run/console" // of the inner guest

	// patience bounds what takes seconds: the start of libvirt, which asks QEMU
	// what it can do, and the inner guest. A node on which that is not enough is
	// started anew (HOST-HUNG).
	patience = 4 * time.Minute
)

// libvirtConfiguration: no confinement, nothing that takes a service manager
// (https://libvirt.org/drvqemu.html).
const libvirtConfiguration = `user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = [ ]
remember_owner = 0
namespaces = [ ]
stdio_handler = "file"
`

func main() {
	if os.Getpid() == 1 {
		pid1.Run("HOST", reap)
	}
	if err := run(); err != nil {
		fmt.Println("HOST-ERROR", err)
		os.Exit(1)
	}
}

// reap does the work in a process of its own and buries the others: libvirt
// waits for the QEMUs that it has asked what they can do, and kills, until they
// are gone.
func reap() error {
	worker, err := os.StartProcess("/init", []string{"/init"}, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if pid == worker.Pid {
			return nil
		}
	}
}

func say(words ...any) {
	uptime, _, _ := strings.Cut(read("/proc/uptime"), " ")
	fmt.Println(append([]any{"HOST", uptime}, words...)...)
}

func run() error {
	for _, step := range []func() error{enterRoot, virtualFunctions, mediatedDevice, bindDevices, startLibvirt} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := command(binary, "snapshot", "-o", lab+"/out/host.txtar"); err != nil {
		return err
	}
	for _, layout := range []string{"numa", "mirror"} {
		if err := boot(layout); err != nil {
			return fmt.Errorf("layout %s: %w", layout, err)
		}
	}
	return nil
}

// enterRoot makes the read-only image the root, with a layer in memory above.
func enterRoot() error {
	if err := errors.Join(pid1.Mount("proc", "/proc", "proc", ""), pid1.Mount("devtmpfs", "/dev", "devtmpfs", ""), pid1.LoadModules()); err != nil {
		return err
	}
	// The disk's driver asks for its disks by itself.
	if err := until("the disk", func() bool { return strings.Contains(read("/proc/partitions"), "vda") }); err != nil {
		return err
	}
	if err := os.Mkdir("/image", 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("/dev/vda", "/image", "squashfs", syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount the image: %w", err)
	}
	if err := errors.Join(pid1.Mount("tmpfs", "/layer", "tmpfs", ""), os.MkdirAll("/layer/upper", 0o755), os.MkdirAll("/layer/work", 0o755)); err != nil {
		return err
	}
	mounts := [][4]string{
		{"overlay", "", "overlay", "lowerdir=/image,upperdir=/layer/upper,workdir=/layer/work"},
		{"proc", "/proc", "proc", ""}, {"sysfs", "/sys", "sysfs", ""}, {"devtmpfs", "/dev", "devtmpfs", ""},
		{"tmpfs", "/run", "tmpfs", ""}, {"tmpfs", "/tmp", "tmpfs", ""}, {"tmpfs", "/dev/shm", "tmpfs", ""},
		{"devpts", "/dev/pts", "devpts", ""}, {"cgroup2", "/sys/fs/cgroup", "cgroup2", ""},
		{"lab", lab, "9p", "trans=virtio,version=9p2000.L,msize=262144"},
	}
	for _, m := range mounts {
		if err := pid1.Mount(m[0], "/root"+m[1], m[2], m[3]); err != nil {
			return err
		}
	}
	say("in the root file system")
	return errors.Join(syscall.Chroot("/root"), os.Chdir("/"),
		os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), os.Setenv("LC_ALL", "C"))
}

// virtualFunctions makes two virtual functions of each device that can.
func virtualFunctions() error {
	files, err := filepath.Glob("/sys/bus/pci/drivers/igb/*/sriov_numvfs")
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("no device with virtual functions")
	}
	for _, file := range files {
		if err := write(file, "2"); err != nil {
			return err
		}
	}
	return nil
}

// mediatedDevice makes a mediated device of the kernel's sample driver.
func mediatedDevice() error {
	// A type is called after its parent's driver (Linux drivers/vfio/mdev/mdev_sysfs.c).
	types, err := filepath.Glob("/sys/class/mdev_bus/*/mdev_supported_types/*-1/create")
	if err != nil {
		return err
	}
	if len(types) != 1 {
		return fmt.Errorf("%d parents of mediated devices, want 1", len(types))
	}
	say("mediated device of", types[0])
	return write(types[0], read(lab+"/mediated"))
}

// bindDevices binds the devices that the domain names to vfio-pci, as a device
// plugin's node has them.
func bindDevices() error {
	for _, address := range strings.Fields(read(lab + "/devices")) {
		folder := "/sys/bus/pci/devices/" + address
		if err := errors.Join(write(folder+"/driver_override", "vfio-pci"), write("/sys/bus/pci/drivers_probe", address)); err != nil {
			return err
		}
		group, err := os.Readlink(folder + "/iommu_group")
		if err != nil {
			return err
		}
		driver, err := os.Readlink(folder + "/driver")
		if err != nil {
			return fmt.Errorf("%s has no driver: %w", address, err)
		}
		say(address, "driver", filepath.Base(driver), "group", filepath.Base(group), "node", read(folder+"/numa_node"))
	}
	return nil
}

func startLibvirt() error {
	for _, folder := range []string{"/run/libvirt", "/var/log/libvirt/qemu", "/var/lib/libvirt/qemu", sockets} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	err := errors.Join(os.WriteFile("/etc/libvirt/qemu.conf", []byte(libvirtConfiguration), 0o644),
		os.WriteFile("/etc/machine-id", []byte(strings.Repeat("0123456789abcdef", 2)+"\n"), 0o644))
	if err != nil {
		return err
	}
	daemon := exec.Command("libvirtd")
	daemon.Stderr = os.Stderr
	if err := daemon.Start(); err != nil {
		return err
	}
	return until("libvirt", func() bool { return exec.Command("virsh", "-q", "version").Run() == nil })
}

// boot has the devices placed with a layout, and boots the domain.
func boot(layout string) (err error) {
	out := func(name string) string { return lab + "/out/" + layout + "." + name }
	hook := exec.Command(binary, "--socket-dir", sockets, "--layout", layout, "--strict")
	hook.Env = append(os.Environ(), "CONTAINER_NAME=e2e")
	hook.Stderr = os.Stderr
	if err := hook.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hook.Process.Signal(syscall.SIGTERM), hook.Wait()) }()
	socket := sockets + "/hostdev-e2e.sock"
	if err := until("the hook", func() bool { _, err := os.Stat(socket); return err == nil }); err != nil {
		return err
	}
	inputs := []string{"--vmi", lab + "/vmi.json", "--domain"}
	if err := command(binary, append([]string{"call", "--socket", socket, "-o", out("domain.xml")}, append(inputs, lab+"/domain.xml")...)...); err != nil {
		return err
	}
	if err := command("virsh", "-q", "define", "--validate", out("domain.xml")); err != nil {
		return err
	}
	if err := save(out("readback.xml"), "virsh", "-q", "dumpxml", "--inactive", "e2e"); err != nil {
		return err
	}
	if err := save(out("json"), binary, append([]string{"explain", "--format", "json", "--layout", layout}, append(inputs, out("readback.xml"))...)...); err != nil {
		return err
	}
	if err := os.RemoveAll(console); err != nil {
		return err
	}
	if err := command("virsh", "-q", "start", "e2e"); err != nil {
		return errors.Join(err, save(out("log"), "tail", "-n", "30", "/var/log/libvirt/qemu/e2e.log"))
	}
	err = until("the inner guest", func() bool {
		state, err := exec.Command("virsh", "-q", "domstate", "e2e").Output()
		return err == nil && strings.HasPrefix(string(state), "shut off")
	})
	return errors.Join(err, save(out("console"), "cat", console), command("virsh", "-q", "undefine", "e2e"))
}

// until waits for something, and says so while it waits.
func until(name string, done func() bool) error {
	say("waiting for", name)
	for start, said := time.Now(), time.Now(); time.Since(start) < patience; time.Sleep(200 * time.Millisecond) {
		if done() {
			say(name, "after", time.Since(start).Round(100*time.Millisecond))
			return nil
		}
		if time.Since(said) > 10*time.Second {
			say("still waiting for", name)
			said = time.Now()
		}
	}
	fmt.Println("HOST-HUNG", name)
	return fmt.Errorf("%s: nothing within %v", name, patience)
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	say(filepath.Base(name), args[0], string(out))
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// save writes what a command prints to a file.
func save(file, name string, args ...string) error {
	var stderr bytes.Buffer
	c := exec.Command(name, args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return os.WriteFile(file, out, 0o644)
}

func write(file, text string) error { return os.WriteFile(file, []byte(text), 0o644) }

func read(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
