package boot

import (
	"os"
	"path/filepath"
	"strings"

	"hook-sidecar/test/oracle"
)

// Debian13Variable names the environment variable with the directory that
// get-debian13 fills: the OVMF of 2025 and a kernel for aarch64. Tests that need
// them are skipped without it.
const Debian13Variable = "BOOT_DEBIAN13"

// NewestVariable names the environment variable with the directory that get-newest
// fills: libvirt, QEMU, firmware and kernel of Debian testing.
const NewestVariable = "BOOT_NEWEST"

// Firmware is what starts the guest's kernel.
type Firmware string

// The firmwares of this machine's packages seabios and ovmf, or of those in the directory of
// oracle.RootVariable where that is set; and of the packages ovmf and qemu-efi-aarch64 of Debian
// 13, in the directory of Debian13Variable.
const (
	SeaBIOS   Firmware = "seabios"
	OVMF      Firmware = "ovmf"
	OVMF2025  Firmware = "ovmf-2025"
	AAVMF2025 Firmware = "aavmf-2025"
	// Of Debian testing, in the directory of NewestVariable.
	SeaBIOSNewest Firmware = "seabios-newest"
	OVMFNewest    Firmware = "ovmf-newest"
)

// Steady are arguments of a kernel that runs beside other machines or in one: it starts one CPU, and
// its timers are periodic. Emulated CPUs lose an interrupt now and then, and their machine hangs. The
// kernel panics where its test of the timer fails, as it can on a busy machine
// (arch/x86/kernel/apic/io_apic.c, check_timer). An idle machine takes more of its host's time with
// them.
const Steady = "maxcpus=1 highres=off nohz=off no_timer_check"

// arguments give a UEFI its two flash chips. QEMU starts SeaBIOS by itself.
func (f Firmware) arguments() []string {
	debian13 := os.Getenv(Debian13Variable)
	newest := filepath.Join(os.Getenv(NewestVariable), "root", "usr", "share")
	var code, vars string
	switch f {
	case OVMF:
		root := filepath.Join("/", os.Getenv(oracle.RootVariable), "usr", "share", "OVMF")
		code, vars = filepath.Join(root, "OVMF_CODE_4M.fd"), filepath.Join(root, "OVMF_VARS_4M.fd")

	case OVMF2025:
		code, vars = filepath.Join(debian13, "OVMF_CODE_4M.fd"), filepath.Join(debian13,
			"OVMF_VARS_4M.fd")

	case AAVMF2025:
		code, vars = filepath.Join(debian13, "AAVMF_CODE.no-secboot.fd"), filepath.Join(debian13,
			"AAVMF_VARS.fd")

	case OVMFNewest:
		code, vars = filepath.Join(newest, "OVMF", "OVMF_CODE_4M.fd"), filepath.Join(newest, "OVMF",
			"OVMF_VARS_4M.fd")

	case SeaBIOSNewest:
		return []string{"-bios", filepath.Join(newest, "seabios", "bios-256k.bin")}
	default:
		return nil
	}

	return []string{
		"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=" + code,
		"-drive", "if=pflash,unit=1,format=raw,snapshot=on,file=" + vars,
	}
}

// System is a guest of an architecture, without its devices.
type System struct {
	architecture string // GOARCH
	program      string // QEMU
	cpu, console string
	modules      []string
	parameters   []string // of the kernel, beside those of every guest
	kernel       string   // file
	initramfs    string   // file
}

// amd64 returns the system for q35. The modules give disks and NICs their names.
func amd64() System {
	return System{architecture: "amd64", program: "qemu-system-x86_64", cpu: "qemu64",
		console: "ttyS0",
		modules: []string{"virtio_pci", "virtio_blk", "virtio_net"}}
}

// arm64 returns the system for machine virt. Its kernel has virtio_pci built in.
func arm64() System {
	return System{architecture: "arm64", program: "qemu-system-aarch64", cpu: "cortex-a57",
		console: "ttyAMA0",
		modules: []string{"virtio_blk", "virtio_net"}}
}

// newLab prepares a system's kernel and initramfs in a directory. The guest has
// the program under test too, which takes a snapshot.
func newLab(dir string, s System, kernelDir, binary string) (*Lab, error) {
	var err error
	if s.kernel, err = KernelIn(kernelDir); err != nil {
		return nil, err
	}

	s.initramfs = filepath.Join(dir, "initramfs")
	content := GuestInitramfs(kernelDir)
	content.Architecture, content.Modules, content.Binary = s.architecture, s.modules, binary
	return &Lab{system: s}, content.Write(s.initramfs)
}

// qemu returns the program and its first arguments, where oracle.RootVariable names another Debian
// of that one.
func (s System) qemu() []string { return QEMU(os.Getenv(oracle.RootVariable), s.program) }

// QEMU returns a QEMU of this machine, or where root is not "" of the Debian there, and its first
// arguments. The latter runs with its own libraries, without a chroot, so that it reads this
// machine's files.
func QEMU(root, program string) []string {
	if root == "" {
		return []string{program}
	}

	libraries := filepath.Join(root, "usr", "lib", "x86_64-linux-gnu")
	return []string{
		filepath.Join(root, "lib64", "ld-linux-x86-64.so.2"), "--library-path",
		libraries + ":" + libraries + "/pulseaudio",
		filepath.Join(root, "usr", "bin", program),
		"-L", filepath.Join(root, "usr", "share", "seabios"), "-L",
		filepath.Join(root, "usr", "share", "qemu"),
	}
}

// arguments let the kernel start without waiting. Its messages reset the watchdog
// while hundreds of devices are found. With pcie_ports=compat no driver binds to
// the ports: each would take an interrupt, for which QEMU rebuilds its map of the
// whole memory, and a guest with 38 devices would take 17 s instead of 10. It does
// not change what the kernel does to bridges and BARs (drivers/pci/pcie/portdrv.c).
func (s System) arguments() []string {
	kernel := []string{
		"console=" + s.console, "loglevel=7", "panic=-1", "mitigations=off", "nokaslr",
		"tsc=reliable", "random.trust_cpu=on", "pcie_ports=compat",
	}

	kernel = append(kernel, s.parameters...)
	return []string{
		"-cpu", s.cpu, "-serial", "stdio", "-kernel", s.kernel, "-initrd", s.initramfs, "-append",
		strings.Join(kernel, " "),
	}
}
