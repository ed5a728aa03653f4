package speed_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/speed"
)

// guestSilence is how long the guest may print nothing: a race under TCG.
const guestSilence = 5 * time.Minute

// TestGuestRace boots a guest and prints what a call costs on its sysfs. Only the ratio
// counts: QEMU emulates the CPU.
func TestGuestRace(t *testing.T) {
	kernelDir := os.Getenv(boot.KernelVariable)
	if kernelDir == "" {
		t.Skipf("%s is not set; `make speed` sets it", boot.KernelVariable)
	}
	dir := t.TempDir()
	expect.NoError(t, speed.Build(dir))
	kernel, err := boot.KernelIn(kernelDir)
	expect.NoError(t, err)
	initramfs := filepath.Join(dir, "initramfs")
	content := boot.Initramfs{Program: "hook-sidecar/test/speed/guest", Kernel: kernelDir, Binary: filepath.Join(dir, "hook-sidecar")}
	expect.NoError(t, content.Write(initramfs))
	args := append(switches(64), "-kernel", kernel, "-initrd", initramfs, "-append",
		"console=ttyS0 loglevel=7 panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on pcie_ports=compat")
	printed, err := console(t, args)
	if errors.Is(err, boot.ErrHung) { // as about one guest in fifty does under TCG, see package boot
		printed, err = console(t, args)
	}
	for _, line := range regexp.MustCompile(`SPEED-(RACE|DEVICES).*`).FindAllString(string(printed), -1) {
		t.Log(strings.TrimSpace(line))
	}
	if err != nil || !strings.Contains(string(printed), "SPEED-END") || strings.Contains(string(printed), "SPEED-ERROR") {
		t.Fatalf("%v\n%s", err, printed[max(0, len(printed)-8000):])
	}
}

// console returns what the guest prints.
func console(t *testing.T, args []string) ([]byte, error) {
	t.Helper()
	began := time.Now()
	printed, err := boot.Run(t.Context(), guestSilence, "qemu-system-x86_64", args...)
	t.Logf("the guest ran for %v: %v", time.Since(began).Round(time.Second), err)
	return printed, err
}

// switches are the arguments for a machine with that many devices, two under each
// switch, four switches under each PCIe root, the PCIe roots on two nodes in turn. The
// first 8 devices are NVMe, whose driver the kernel has built in; the others have no
// driver.
func switches(devices int) []string {
	words := strings.Fields(`-accel tcg,thread=multi -cpu qemu64 -M q35 -nodefaults -display none -serial stdio -no-reboot -m 1024 -smp 2,sockets=2,cores=1
-object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=512M
-numa node,nodeid=0,cpus=0,memdev=m0 -numa node,nodeid=1,cpus=1,memdev=m1`)
	add := func(format string, args ...any) { words = append(words, "-device", fmt.Sprintf(format, args...)) }
	for i := range devices {
		root, unit := i/8, i/2
		if i%8 == 0 {
			add("pxb-pcie,id=root%d,bus_nr=%d,numa_node=%d,bus=pcie.0,addr=0x%x", root, 0x10+root*0x1c, root%2, 0x8+root)
		}
		if i%2 == 0 {
			add("pcie-root-port,id=p%d,bus=root%d,addr=0x%x,chassis=%d,hotplug=off", unit, root, unit%4, unit)
			add("x3130-upstream,id=u%d,bus=p%d", unit, unit)
		}
		add("xio3130-downstream,id=d%d,bus=u%d,addr=0x%x,chassis=%d,hotplug=off", i, unit, i%2, 100+i)
		if i < 8 {
			add("nvme,serial=%d,bus=d%d,max_ioqpairs=1,msix_qsize=2", i, i)
		} else {
			add("virtio-rng-pci,bus=d%d,disable-legacy=on", i)
		}
	}
	return words
}
