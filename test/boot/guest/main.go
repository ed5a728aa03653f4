//go:build linux

// Command guest is the only process of a guest under test: it prints what the
// guest's kernel shows of its PCI devices, one line per device, and powers the
// guest off. Package hook-sidecar/test/boot reads the lines.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"hook-sidecar/test/boot/pid1"
)

// patience is how long to wait for the next driver to name its device. A device
// that the firmware has lost never gets a name.
const patience = 10 * time.Second

func main() { pid1.Run("GUEST", run) }

func run() error {
	// The kernel's messages must not break this program's lines; 6 is
	// SYSLOG_ACTION_CONSOLE_OFF (syslog(2)).
	if _, err := syscall.Klogctl(6, nil); err != nil {
		return fmt.Errorf("turn off the kernel's console: %w", err)
	}

	if err := errors.Join(pid1.Mount("sysfs", "/sys", "sysfs", ""),
		pid1.Mount("devtmpfs", "/dev", "devtmpfs", ""), pid1.LoadModules()); err != nil {
		return err
	}

	if err := waitForPlugged(); err != nil {
		return err
	}

	devices, err := filepath.Glob("/sys/bus/pci/devices/*")
	if err != nil {
		return err
	}

	waitForDrivers(devices)

	for _, device := range devices {
		if err := printDevice(device); err != nil {
			return err
		}
	}

	return errors.Join(snapshot(devices), printNodes(), printKernel(), passThrough(devices),
		measureMapping(chosenBy("mapping", devices)), askPeers())
}

// waitForPlugged waits for the device that the kernel's command line names by its
// vendor and device: plugged=8086:10ca.
func waitForPlugged() error {
	if err := pid1.Mount("proc", "/proc", "proc", ""); err != nil {
		return err
	}

	_, after, waits := strings.Cut(read("/proc/cmdline"), "plugged=")
	if !waits {
		return nil
	}

	vendor, device, _ := strings.Cut(strings.Fields(after)[0], ":")
	fmt.Println("GUEST-WAITS", vendor, device)

	for began := time.Now(); time.Since(began) < 6*patience; time.Sleep(100 * time.Millisecond) {
		devices, err := filepath.Glob("/sys/bus/pci/devices/*")
		if err != nil {
			return err
		}

		if slices.ContainsFunc(devices, func(d string) bool {
			return read(d, "vendor")+read(d, "device") == "0x"+vendor+"0x"+device
		}) {
			return nil
		}
	}

	return nil // the report shows that it is missing
}

// waitForDrivers waits until every device whose driver names it has a name, or
// until no more names appear.
func waitForDrivers(devices []string) {
	missing := len(devices)
	for last := time.Now(); missing > 0 &&
		time.Since(last) < patience; time.Sleep(20 * time.Millisecond) {
		now := 0
		for _, d := range devices {
			if named(d) && label(d) == "" {
				now++
			}
		}

		if now < missing {
			missing, last = now, time.Now()
		}
	}
}

// named reports whether the device's driver gives it a name: class nvme, and
// virtio NICs and disks, transitional or not (virtio 1.2, 4.1.2).
func named(device string) bool {
	if strings.HasPrefix(read(device, "class"), "0x010802") {
		return true
	}

	id := read(device, "vendor") + read(device, "device")
	return slices.Contains([]string{
		"0x1af40x1000", "0x1af40x1041", "0x1af40x1001", "0x1af40x1042",
	}, id)
}

// label returns the serial number or MAC of a device, or "".
func label(device string) string {
	if read(device, "vendor")+read(device, "device") == cardReader {
		return cardReaderLabel(device)
	}

	for _, pattern := range []string{
		"nvme/nvme*/serial", "virtio*/net/*/address", "virtio*/block/*/serial",
	} {
		files, err := filepath.Glob(filepath.Join(device, pattern))
		if err != nil || len(files) == 0 {
			continue
		}
		return read(files[0], "")
	}

	return ""
}

func read(parts ...string) string {
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func printDevice(device string) error {
	path, err := filepath.EvalSymlinks(device)
	if err != nil {
		return err
	}

	iommu, _ := os.Readlink(filepath.Join(device, "iommu")) // most have none
	fmt.Printf("GUEST-DEVICE path=%s id=%s:%s class=%s node=%s label=%s memory=%s vendor=%s "+
		"iommu=%s\n", strings.TrimPrefix(path, "/sys/devices/"),
		strings.TrimPrefix(read(device, "vendor"), "0x"),
		strings.TrimPrefix(read(device, "device"), "0x"),
		strings.TrimPrefix(read(device, "class"), "0x"), read(device,
			"numa_node"), label(device), memory(device), vendorCapability(device),
		filepath.Base(iommu))

	return nil
}

// printNodes prints which NUMA nodes are those of a device without memory or CPU, and the
// distances of each node (Linux Documentation/ABI/stable/sysfs-devices-node).
func printNodes() error {
	const nodes = "/sys/devices/system/node"
	files, err := filepath.Glob(nodes + "/node*/distance")
	for _, file := range append(files, nodes+"/has_generic_initiator") {
		fmt.Println("GUEST-NODES", strings.TrimPrefix(file, nodes+"/"), read(file))
	}

	return err
}

// memory returns the device's memory BARs as number:start-end, with commas between.
func memory(device string) string {
	var bars []string
	for i, line := range strings.Split(read(device, "resource"), "\n")[:6] {
		var start, end, flags uint64
		if n, _ := fmt.Sscan(line, &start, &end, &flags); n == 3 && flags&ioresourceMem != 0 {
			bars = append(bars, fmt.Sprintf("%d:%#x-%#x", i, start, end))
		}
	}

	return strings.Join(bars, ",")
}

// ioresourceMem is IORESOURCE_MEM (Linux include/linux/ioport.h).
const ioresourceMem = 0x200

// printKernel prints the kernel's messages about memory that the firmware did not
// assign to a device.
func printKernel() error {
	f, err := os.OpenFile("/dev/kmsg", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}

	// One read is one record (Linux Documentation/ABI/testing/dev-kmsg).
	for record := make([]byte, 8192); ; {
		n, err := syscall.Read(int(f.Fd()), record)
		if errors.Is(err, syscall.EPIPE) {
			continue // records were overwritten
		}
		if err != nil {
			break // EAGAIN: no more records
		}

		_, text, _ := strings.Cut(string(record[:n]), ";")
		if text, _, _ = strings.Cut(text, "\n"); strings.Contains(text, "BAR") &&
			strings.Contains(text, "ssign") {
			fmt.Println("GUEST-KERNEL", text)
		}
	}

	return f.Close()
}
