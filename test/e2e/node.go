package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hook-sidecar/test/boot"
)

// Device is a device of the node that the domain gets: its PCI address or UUID,
// and the vendor and device that a guest sees. Addresses follow from the bus
// numbers in machineArguments; NVMe devices carry them as serial number.
type Device struct{ ID, IDs string }

// Devices returns the devices that can be passed through.
func Devices() []Device {
	return []Device{
		{"0000:21:00.0", "1b36:0010"}, // root port of the first PCIe root of node 0
		{"0000:24:00.0", "1b36:0010"}, // switch of that root, first port
		{"0000:25:00.0", "8086:10d3"}, // and second
		{"0000:63:00.0", "1b36:0010"}, // switch of the first root of node 1
		{"0000:66:00.0", "1b36:0010"}, // switch under that switch
		{"0000:67:10.2", "8086:10ca"}, // second virtual function of the NIC of that root
		{"0000:a1:00.0", "1b36:0010"}, // second root of node 1
		// a serial port of the kernel's sample mtty, whose parent is that NIC
		{mediated, "4348:5053"},
	}
}

// displays returns devices of a display class under one switch, which the guest of
// extras gets in place of GPUs. Others that QEMU has want 32-bit memory, of which
// SeaBIOS has too little for the switch's ports.
func displays() []Device {
	return []Device{{"0000:26:00.0", "10de:0001"}, {"0000:27:00.0", "10de:0002"}}
}

const (
	mediated = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
	parent   = "0000:67:00.0"

	// loose is a device of the unchanged sample, which has no PCI parent.
	loose = "a297db4a-f4c2-11e6-90f6-d3b88d6c9525"
	// unbound is the device whose driver is unbound in the end.
	unbound = "0000:a1:00.0"
)

// isMediated reports whether the id is a UUID.
func (d Device) isMediated() bool { return d.ID == mediated || d.ID == loose }

// Share writes which devices the node binds to vfio-pci, and its mediated devices, to the
// directory that it has as /lab.
func Share(dir string, more ...Device) error {
	var addresses strings.Builder
	for _, d := range append(slices.DeleteFunc(Devices(), Device.isMediated), more...) {
		addresses.WriteString(d.ID + "\n")
	}

	for name, text := range map[string]string{
		"devices": addresses.String(), "mediated": mediated, "loose": loose,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}

	return nil
}

// hostdev returns the device as KubeVirt writes it.
func (d Device) hostdev() string {
	if d.isMediated() {
		return `<hostdev type="mdev" mode="subsystem" model="vfio-pci"><source><address uuid="` +
			d.ID + `"></address></source>`
	}
	return fmt.Sprintf(`<hostdev type="pci" managed="no"><source>`+
		`<address domain="0x%s" bus="0x%s" slot="0x%s" function="0x%s"></address></source>`,
		d.ID[:4], d.ID[5:7], d.ID[8:10], d.ID[11:])
}

// qemuVariable names the environment variable with the root of the system whose QEMU is the
// node: test/boot/get-newest's. Debian 13's QEMU 10.0 loses the node more often; 10.1.3 has
// mended lost interrupts.
const qemuVariable = "NODE_QEMU"

// qemu returns that QEMU, or the image's, with the libraries and modules of its own system. Both
// know a NIC with virtual functions (igb).
func qemu(image string) (program string, args []string) {
	root := cmp.Or(os.Getenv(qemuVariable), filepath.Join(image, "root"))
	libraries := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	return "env", []string{
		"QEMU_MODULE_DIR=" + filepath.Join(libraries, "qemu"),
		filepath.Join(root, "lib64/ld-linux-x86-64.so.2"),
		"--library-path", libraries + ":" + filepath.Join(libraries, "pulseaudio"),
		filepath.Join(root, "usr/bin/qemu-system-x86_64"),
		"-L", filepath.Join(root, "usr/share/seabios"), "-L", filepath.Join(root, "usr/share/qemu"),
		"-L", filepath.Join(root, "usr/lib/ipxe/qemu"),
	}
}

// silence is how long a node that works may print nothing.
const silence = 2 * time.Minute

// Machine is the node.
type Machine struct {
	Image, Initramfs string
	Share            string // directory that it has as /lab
	Programs         string // disk with programs for the image; "" for none
	Cluster          *Cluster
}

// Cluster is the hardware that a node of a cluster has in addition: two CPUs and 4 GiB per NUMA
// node, a disk and a NIC.
type Cluster struct {
	Disk string // that it may write to
	Tap  string // network device
	PID  int    // process in whose network namespace that is
}

// Boot boots the node once, and returns what it printed. The error is boot.ErrLost where another
// attempt is worth it.
func (m Machine) Boot(ctx context.Context) ([]byte, error) {
	kernel, err := boot.KernelIn(filepath.Join(m.Image, "kernel"))
	if err != nil {
		return nil, err
	}

	program, args := qemu(m.Image)
	args = append(args, m.arguments(kernel)...)
	if m.Programs != "" {
		args = append(args,
			strings.Fields("-device virtio-blk-pci,drive=programs,bus=pcie.0,addr=0x3 -drive "+
				"if=none,id=programs,format=raw,readonly=on,file="+m.Programs)...)
	}

	cpus, memory := 1, 2048
	if c := m.Cluster; c != nil {
		cpus, memory = 2, 4096
		program, args = "nsenter", append([]string{"-t", fmt.Sprint(c.PID), "-n", program}, args...)
		args = append(args,
			strings.Fields("-device virtio-blk-pci,drive=data,bus=pcie.0,addr=0x4 -drive "+
				"if=none,id=data,format=raw,cache=unsafe,file="+c.Disk+
				" -netdev tap,id=net,ifname="+c.Tap+
				",script=no,downscript=no -device virtio-net-pci,netdev=net,romfile=,bus=pcie.0,"+
				"addr=0x5")...)
	}

	args = append(args, strings.Fields(fmt.Sprintf(`-m %d -smp %d,sockets=2,cores=%d
-object memory-backend-ram,id=m0,size=%dM -object memory-backend-ram,id=m1,size=%[4]dM
-numa node,nodeid=0,cpus=0-%d,memdev=m0 -numa node,nodeid=1,cpus=%[3]d-%[6]d,memdev=m1`, 2*memory, 2*cpus, cpus, memory, cpus-1, 2*cpus-1))...)

	console, err := boot.Run(ctx, silence, program, args...)
	text := string(console)
	switch {
	case err != nil:
		return console, err
	case strings.Contains(text, "HOST-HUNG"):
		return console, fmt.Errorf("%w: something hangs in it", boot.ErrLost)
	case strings.Contains(text, "HOST-ERROR"):
		return console, errors.New("the node reports an error")
	case !strings.Contains(text, "HOST-END"):
		return console, fmt.Errorf("%w: it ended before its work", boot.ErrLost)
	}

	return console, nil
}

// Initramfs returns the node's first file system, with modules beside those of every node.
func Initramfs(image string, modules ...string) boot.Initramfs {
	all := strings.Fields("virtio_blk squashfs overlay 9p 9pnet_virtio kvm_amd vfio-pci " +
		"vfio_iommu_type1 igb mtty")
	all = append(append(all, modules...), "mttypci parent="+parent)
	return boot.Initramfs{
		Program: "hook-sidecar/test/e2e/host", Kernel: filepath.Join(image, "kernel"), Modules: all,
	}
}

// arguments returns the arguments of every node: two NUMA nodes, three PCIe roots, switches.
func (m Machine) arguments(kernel string) []string {
	words := strings.Fields(`-accel tcg,thread=multi,tb-size=1024 -cpu EPYC,+svm,+npt -M q35,kernel-irqchip=split
-nodefaults -display none -serial chardev:console -no-reboot
-device intel-iommu,intremap=on,device-iotlb=on
-device virtio-blk-pci,drive=root,bus=pcie.0,addr=0x1
-device virtio-9p-pci,fsdev=lab,mount_tag=lab,bus=pcie.0,addr=0x2
-device pxb-pcie,id=root0,bus_nr=0x20,numa_node=0,bus=pcie.0,addr=0x8
-device pxb-pcie,id=root1,bus_nr=0x60,numa_node=1,bus=pcie.0,addr=0x9
-device pxb-pcie,id=root2,bus_nr=0xa0,numa_node=1,bus=pcie.0,addr=0xa`)

	chassis := 0
	port := func(driver, id, bus string, slot int) {
		chassis++
		words = append(words, "-device",
			fmt.Sprintf("%s,id=%s,bus=%s,addr=0x%x,chassis=%d,hotplug=off", driver, id, bus, slot,
				chassis))
	}

	upstream := func(id, bus string) {
		words = append(words, "-device", "x3130-upstream,id="+id+",bus="+bus)
	}

	nvme := func(address, bus string) {
		words = append(words, "-device", "nvme,serial="+address+",bus="+bus)
	}

	nic := func(driver, bus string) {
		words = append(words, "-netdev", "user,restrict=on,id=n"+bus, "-device", driver+
			",romfile=,netdev=n"+bus+",bus="+bus)
	}

	port("pcie-root-port", "p0", "root0", 0)
	nvme("0000:21:00.0", "p0")
	port("pcie-root-port", "p1", "root0", 1)
	upstream("u1", "p1")
	port("xio3130-downstream", "d10", "u1", 0)
	nvme("0000:24:00.0", "d10")
	port("xio3130-downstream", "d11", "u1", 1)
	nic("e1000e", "d11")

	for slot := range displays() {
		bus := fmt.Sprintf("d1%d", slot+2)
		port("xio3130-downstream", bus, "u1", slot+2)
		words = append(words, "-device", "virtio-gpu-pci,romfile=,bus="+bus)
	}

	port("pcie-root-port", "p2", "root1", 0)
	upstream("u2", "p2")
	port("xio3130-downstream", "d20", "u2", 0)
	nvme("0000:63:00.0", "d20")
	port("xio3130-downstream", "d21", "u2", 1)
	upstream("u3", "d21")
	port("xio3130-downstream", "d30", "u3", 0)
	nvme("0000:66:00.0", "d30")
	port("pcie-root-port", "p3", "root1", 1)
	nic("igb", "p3")
	port("pcie-root-port", "p4", "root2", 0)
	nvme("0000:a1:00.0", "p4")
	return append(words, "-kernel", kernel, "-initrd", m.Initramfs,
		// host/main.go starts the other CPUs.
		"-append",
		"console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr intel_iommu=on "+
			"iommu=pt tsc=reliable random.trust_cpu=on net.ifnames=0 "+boot.Steady,
		"-chardev", "stdio,id=console,logfile="+filepath.Join(m.Share, "console"),
		"-drive",
		"if=none,id=root,format=raw,readonly=on,file="+filepath.Join(m.Image, "root.squashfs"),
		"-fsdev", "local,id=lab,security_model=none,path="+m.Share)
}
