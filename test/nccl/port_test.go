//go:build lane

package nccl_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
	"hook-sidecar/test/sys"
)

// TestPorts reads from QEMU which links its ports advertise, through qtest, without a guest: this
// machine's QEMU and Debian testing's are what the judged guests have.
func TestPorts(t *testing.T) {
	nccl.Libraries(t) // part of the lane
	roots := map[string]string{"this machine's": ""}
	if newest := os.Getenv(boot.NewestVariable); newest != "" {
		roots["newest"] = filepath.Join(newest, "root")
	}

	for name, root := range roots {
		t.Run(name, func(t *testing.T) {
			q := startQTest(t, root)
			for _, device := range q.devices {
				driver, properties := sys.Options(device.option)
				want := sys.DriverLink(driver, properties)
				if got := q.link(device.bus, device.slot); got != want {
					t.Errorf("%s advertises %v, want %v", device.option, got, want)
				}

				t.Logf("%s: %v", device.option, want)
			}
		})
	}
}

// port is a port of QEMU at a place of its tree.
type port struct {
	option    string // of -device
	bus, slot int
}

// qtest is a QEMU that does what a test says.
type qtest struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Scanner
	devices []port
}

// startQTest starts a QEMU with a switch of each kind that it has, and numbers its buses.
func startQTest(t *testing.T, root string) *qtest {
	t.Helper()
	program := boot.QEMU(root, "qemu-system-x86_64")
	kinds := [][3]string{{"pcie-root-port", "x3130-upstream", "xio3130-downstream"}}
	help, _ := exec.Command(program[0],
		append(program[1:], "-device", "cxl-upstream,help")...).CombinedOutput()
	if strings.Contains(string(help), "x-speed") {
		const link = ",x-speed=16,x-width=8"
		kinds = append(kinds, [3]string{
			"pcie-root-port,x-speed=8", "cxl-upstream", "cxl-downstream",
		},
			[3]string{"pcie-root-port" + link, "cxl-upstream" + link, "cxl-downstream" + link})
	}

	args := append(program[1:], "-machine", "q35,accel=tcg", "-S", "-display", "none",
		"-nodefaults",
		"-qtest", "stdio", "-qtest-log", "/dev/null")

	q := &qtest{t: t}
	for i, kind := range kinds {
		bus := 1 + 3*i
		args = append(args, "-device",
			fmt.Sprintf("%s,id=root%d,chassis=%d,addr=%#x", kind[0], i, 2*i+1, 2+i),
			"-device", fmt.Sprintf("%s,id=up%d,bus=root%d", kind[1], i, i),
			"-device", fmt.Sprintf("%s,id=down%d,bus=up%d,chassis=%d", kind[2], i, i, 2*i+2))

		q.devices = append(q.devices, port{
			kind[0], 0, 2 + i,
		}, port{kind[1], bus, 0}, port{kind[2], bus + 1, 0})
	}

	q.start(program[0], args)

	for i := range kinds {
		bus := uint32(1 + 3*i)
		q.write(0, 2+i, 0x18, (bus+2)<<16|bus<<8)
		q.write(int(bus), 0, 0x18, (bus+2)<<16|(bus+1)<<8|bus)
	}

	return q
}

func (q *qtest) start(program string, args []string) {
	command := exec.CommandContext(q.t.Context(), program, args...)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	expect.NoError(q.t, err)
	out, err := command.StdoutPipe()
	expect.NoError(q.t, err)
	expect.NoError(q.t, command.Start())
	q.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it was killed
	})

	q.in, q.out = in, bufio.NewScanner(out)
}

// command sends a command and returns what follows OK (QEMU docs/devel/testing/qtest.rst).
func (q *qtest) command(format string, args ...any) string {
	q.t.Helper()
	_, err := fmt.Fprintf(q.in, format+"\n", args...)
	expect.NoError(q.t, err)

	for q.out.Scan() {
		if answer, isOK := strings.CutPrefix(q.out.Text(), "OK"); isOK {
			return strings.TrimSpace(answer)
		}
	}

	q.t.Fatalf("QEMU ended: %v", q.out.Err())
	return ""
}

// address selects a register of a function's configuration space.
func (q *qtest) address(bus, slot int, register uint32) {
	q.command("outl 0xcf8 %#x", 1<<31|uint32(bus)<<16|uint32(slot)<<11|register)
}

func (q *qtest) read(bus, slot int, register uint32) (value uint32) {
	q.t.Helper()
	q.address(bus, slot, register)
	_, err := fmt.Sscanf(q.command("inl 0xcfc"), "0x%x", &value)
	expect.NoError(q.t, err)
	return value
}

func (q *qtest) write(bus, slot int, register, value uint32) {
	q.address(bus, slot, register)
	q.command("outl 0xcfc %#x", value)
}

// link returns what the kernel shows of a port's link capabilities (drivers/pci/pci-sysfs.c,
// max_link_speed_show; PCI Express 5.0, 7.5.3.6).
func (q *qtest) link(bus, slot int) sys.Link {
	q.t.Helper()
	speeds := []string{
		"Unknown", "2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe",
		"32.0 GT/s PCIe", "64.0 GT/s PCIe",
	}

	const express = 0x10
	for at := q.read(bus, slot, 0x34) & 0xfc; at != 0; at = q.read(bus, slot, at) >> 8 & 0xfc {
		if q.read(bus, slot, at)&0xff != express {
			continue
		}
		capabilities := q.read(bus, slot, at+12)
		return sys.Link{Speed: speeds[capabilities&15], Width: fmt.Sprint(capabilities >> 4 & 63)}
	}

	q.t.Fatalf("%02x:%02x.0 has no PCI Express capability", bus, slot)
	return sys.Link{}
}
