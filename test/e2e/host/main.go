//go:build linux

// Command host is the first process of the machine that is the KubeVirt node: it
// binds devices to vfio-pci and starts libvirt. For each inner guest it has the
// program under test place them in the guest's domain, boots that, and writes
// reports to /lab/out. Package hook-sidecar/test/e2e starts it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"hook-sidecar/test/boot/pid1"
)

const (
	lab     = "/lab" // the directory that the test shares
	program = lab + "/hook-sidecar"

	// patience bounds what takes seconds, such as the start of libvirt, which asks QEMU for
	// its capabilities. A node that needs longer is started again (HOST-HUNG).
	patience = 4 * time.Minute
)

// libvirtConfiguration has no confinement and nothing that needs a service manager
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

// reap does the work in a process of its own and reaps all others: libvirt kills
// the QEMUs that it has asked for capabilities, and waits until they are gone.
func reap() error {
	if err := enterRoot(); err != nil {
		return err
	}

	worker, err := os.StartProcess("/proc/self/exe", []string{
		"/init",
	}, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
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

func logLine(words ...any) {
	uptime, _, _ := strings.Cut(read("/proc/uptime"), " ")
	fmt.Println(append([]any{"HOST", uptime}, words...)...)
}

func run() error {
	for _, step := range []func() error{startCPUs, virtualFunctions, mediatedDevices, bindDevices} {
		if err := step(); err != nil {
			return err
		}
	}

	if _, err := os.Stat(lab + "/node.sh"); err == nil {
		return runNode()
	}

	go holdInnerMachines(100 * time.Millisecond)
	if err := command(program, "snapshot", "--output-file", lab+"/out/host.txtar"); err != nil {
		return err
	}

	if err := pretendNVIDIA(); err != nil {
		return err
	}

	if pods := read(lab + "/pods"); pods != "" {
		return runPods(pods)
	}

	if err := startLibvirt(); err != nil {
		return err
	}

	var last guest
	for line := range strings.Lines(read(lab + "/guests")) {
		words := strings.Fields(line)
		last = guest{words[0], words[1:]}
		if last.isFinished() { // before the node was lost
			continue
		}

		if err := last.boot(); err != nil {
			return fmt.Errorf("guest %s: %w", last.name, err)
		}
	}

	return last.withoutDriver(read(lab + "/unbound"))
}

// pretendNVIDIA saves the snapshot of the node with NVIDIA as the vendor of two displays, and with what
// a clique needs: QEMU's switch has no ACS, so that both displays are in one IOMMU group, and its root
// complex is not in Linux's list, which has all of AMD's from Zen on.
func pretendNVIDIA() error {
	snapshot, err := os.ReadFile(lab + "/out/host.txtar")
	if err != nil {
		return err
	}

	text := string(snapshot)
	for address := range strings.FieldsSeq(read(lab + "/displays")) {
		file := "/" + address + "/vendor --\n"
		text = strings.Replace(text, file+"0x1af4\n", file+"0x10de\n", 1)
		group := regexp.MustCompile(`-- \S+/` + regexp.QuoteMeta(address) + `/iommu_group -> .*\n`)
		text = group.ReplaceAllString(text, "")
	}

	text = regexp.MustCompile(`(/extended_capabilities --\n)(acs .*\n)?`).
		ReplaceAllString(text, "${1}acs 0x007f 0x001d\n")
	text = regexp.MustCompile(`(/cpu/modalias --\n).*\n`).
		ReplaceAllString(text, "${1}cpu:type:x86,ven0002fam0019mod0011:feature:\n")

	return os.WriteFile(lab+"/out/nvidia.txtar", []byte(text), 0o644)
}

// enterRoot makes the read-only image the root, with an overlay in memory.
func enterRoot() error {
	if err := errors.Join(pid1.Mount("proc", "/proc", "proc", ""),
		pid1.Mount("devtmpfs", "/dev", "devtmpfs", ""), pid1.LoadModules()); err != nil {
		return err
	}

	// The disk's driver finds its disks asynchronously.
	if err := until("the disk", func() bool {
		return strings.Contains(read("/proc/partitions"), "vda")
	}); err != nil {
		return err
	}

	lower := "/image"
	for _, disk := range [][2]string{{"vda", "/image"}, {"vdb", "/programs"}} {
		if !strings.Contains(read("/proc/partitions"), disk[0]) {
			continue
		}

		if err := errors.Join(os.Mkdir(disk[1], 0o755),
			syscall.Mount("/dev/"+disk[0], disk[1], "squashfs", syscall.MS_RDONLY,
				"")); err != nil {
			return fmt.Errorf("mount %s: %w", disk[0], err)
		}

		if disk[1] != lower {
			lower = disk[1] + ":" + lower
		}
	}

	if err := errors.Join(pid1.Mount("tmpfs", "/layer", "tmpfs", ""),
		os.MkdirAll("/layer/upper", 0o755), os.MkdirAll("/layer/work", 0o755)); err != nil {
		return err
	}

	mounts := [][4]string{
		{"overlay", "", "overlay", "lowerdir=" + lower +
			",upperdir=/layer/upper,workdir=/layer/work"},
		{"proc", "/proc", "proc", ""}, {"sysfs", "/sys", "sysfs", ""},
		{"devtmpfs", "/dev", "devtmpfs", ""},
		{"tmpfs", "/run", "tmpfs", ""}, {"tmpfs", "/tmp", "tmpfs", ""},
		{"tmpfs", "/dev/shm", "tmpfs", ""},
		{"devpts", "/dev/pts", "devpts", ""}, {"cgroup2", "/sys/fs/cgroup", "cgroup2", ""},
		{"lab", lab, "9p", "trans=virtio,version=9p2000.L,msize=262144"},
	}

	for _, m := range mounts {
		if err := pid1.Mount(m[0], "/root"+m[1], m[2], m[3]); err != nil {
			return err
		}
	}

	logLine("in the root file system")

	// A container's root can only be left for another if the machine's is a mount of its own
	// (pivot_root(2)).
	return errors.Join(os.Chdir("/root"), syscall.Mount(".", "/", "", syscall.MS_MOVE, ""),
		syscall.Chroot("."), os.Chdir("/"),
		os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), os.Setenv("LC_ALL", "C"),
		os.Setenv("CONTAINER_NAME", "e2e"))
}

// startCPUs starts the CPUs that the kernel has left off.
func startCPUs() error {
	files, err := filepath.Glob("/sys/devices/system/cpu/cpu*/online")
	for _, file := range files {
		err = errors.Join(err, write(file, "1"))
	}
	return err
}

// virtualFunctions enables two virtual functions of each device that has some.
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

// mediatedDevices makes one device of each of the kernel's sample drivers: the
// parent's directory is named after a PCI function, or after the driver itself.
func mediatedDevices() error {
	for name, parent := range map[string]string{"mediated": "0000:*", "loose": "mtty"} {
		types, err := filepath.Glob("/sys/class/mdev_bus/" + parent +
			"/mdev_supported_types/*-1/create")
		if err != nil {
			return err
		}
		if len(types) != 1 {
			return fmt.Errorf("%d parents %s of mediated devices, want 1", len(types), parent)
		}

		logLine("mediated device of", types[0])
		if err := write(types[0], read(lab+"/"+name)); err != nil {
			return err
		}
	}

	return nil
}

// bindDevices binds the devices that the domain names to vfio-pci, as on a node
// with a device plugin.
func bindDevices() error {
	for _, address := range strings.Fields(read(lab + "/devices")) {
		dir := "/sys/bus/pci/devices/" + address
		if _, err := os.Stat(dir + "/driver"); err == nil { // one that is built in
			if err := write(dir+"/driver/unbind", address); err != nil {
				return err
			}
		}

		if err := errors.Join(write(dir+"/driver_override", "vfio-pci"),
			write("/sys/bus/pci/drivers_probe", address)); err != nil {
			return err
		}

		group, err := os.Readlink(dir + "/iommu_group")
		if err != nil {
			return err
		}

		driver, err := os.Readlink(dir + "/driver")
		if err != nil {
			return fmt.Errorf("%s has no driver: %w", address, err)
		}

		logLine(address, "driver", filepath.Base(driver), "group", filepath.Base(group), "node",
			read(dir+"/numa_node"))
	}

	return nil
}

func startLibvirt() error {
	for _, dir := range []string{
		"/run/libvirt", "/var/log/libvirt/qemu", "/var/lib/libvirt/qemu", sockets,
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
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

	return until("libvirt", func() bool {
		return exec.Command("virsh", "-q", "version").Run() == nil
	})
}

// until waits as long as any node that works may need.
func until(name string, done func() bool) error {
	err := within(patience, name, done)
	if err != nil {
		fmt.Println("HOST-HUNG", name)
	}
	return err
}

// within waits for something, and logs that it waits.
func within(limit time.Duration, name string, done func() bool) error {
	logLine("waiting for", name)
	for start, logged := time.Now(), time.Now(); time.Since(start) < limit; time.Sleep(
		200 * time.Millisecond) {
		if done() {
			logLine(name, "after", time.Since(start).Round(100*time.Millisecond))
			return nil
		}
		if time.Since(logged) > 10*time.Second {
			logLine("still waiting for", name)
			logged = time.Now()
		}
	}

	return fmt.Errorf("wait for %s: not done after %v", name, limit)
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	logLine(filepath.Base(name), args[0], string(out))
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}

	return nil
}

// save writes what a command prints to a file, also when it fails.
func save(file, name string, args ...string) error {
	var stdout, stderr bytes.Buffer
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
		return errors.Join(err, os.WriteFile(file, stdout.Bytes(), 0o644))
	}

	return os.WriteFile(file, stdout.Bytes(), 0o644)
}

func write(file, text string) error { return os.WriteFile(file, []byte(text), 0o644) }

func read(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
