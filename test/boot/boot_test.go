package boot

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/program"
	"hook-sidecar/test/readback"
)

const root = "../.."

// bench is what the boots of a test have in common.
type bench struct {
	lab     *Lab
	libvirt *oracle.Libvirt
	binary  string // the program under test, for this machine
}

// newBench returns a bench for guests of a system whose kernel is in a directory of the one
// that an environment variable names.
func newBench(t *testing.T, s System, variable, dir string) *bench {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skipf("%s is not set; `make boot` sets it", variable)
	}

	work := t.TempDir()
	b := &bench{libvirt: oracle.New(t), binary: filepath.Join(work, "hook-sidecar-"+runtime.GOARCH)}
	module := filepath.Join("..", "..")
	expect.NoError(t, program.Build(b.binary, module))
	inGuest := b.binary
	var err error
	if s.architecture != runtime.GOARCH {
		inGuest = filepath.Join(work, "hook-sidecar-"+s.architecture)
		err = program.Build(inGuest, module, "GOOS=linux", "GOARCH="+s.architecture)
	}

	if err == nil {
		b.lab, err = newLab(work, s, filepath.Join(os.Getenv(variable), dir), inGuest)
	}

	expect.NoError(t, err)
	t.Cleanup(func() {
		boots, retries := b.lab.Counts()
		t.Logf("%d boots, %d of them because a guest was lost", boots, retries)
	})

	return b
}

// newPC returns a bench for q35 guests.
func newPC(t *testing.T) *bench {
	t.Helper()
	return newBench(t, amd64(), KernelVariable, "")
}

// boot boots a domain that libvirt has read back.
func (b *bench) boot(t *testing.T, domain []byte, firmware Firmware, instead standIn) *Guest {
	t.Helper()
	args, err := arguments(b.libvirt, domain, instead, cellMemory)
	expect.NoError(t, err)
	guest, err := b.lab.Boot(t.Context(), args, firmware)
	expect.NoError(t, err)
	return guest
}

// hook returns the program under test, called as `mutate`.
func (b *bench) hook(flags ...string) readback.Hook {
	return func(domain []byte) ([]byte, error) { return mutate(b.binary, domain, flags...) }
}

// checkGuest: the guest shows every device where explain predicts it, with memory
// that its firmware assigned. The program's own comparison with a snapshot that
// it took in the guest has the same result.
func (b *bench) checkGuest(
	t *testing.T, guest *Guest, plan *Explained, domain []byte, flags []string,
) {
	t.Helper()
	want, found := plan.Expectations(), guest.found()
	expect.Same(t, want, found, "%d of %d devices (-planned +in the guest)", len(found), len(want))

	// On x86 Linux assigns what the firmware left out, and other systems do not. On
	// arm64 it assigns everything again (arch/arm64/kernel/pci.c,
	// pci_acpi_scan_root).
	for _, line := range guest.Kernel {
		if strings.Contains(line, "[mem") && b.lab.system.architecture == "amd64" {
			t.Errorf("the kernel assigned what the firmware did not: %s", line)
		}
	}

	c, err := compare(b.binary, t.TempDir(), domain, guest.Snapshot, flags...)
	expect.NoError(t, err)

	if c.Status != 0 || c.Source != "snapshot" || c.Outcomes("as-planned") != len(want) ||
		len(c.Devices) != len(want) {
		t.Errorf("explain --guest exits with %d, %d of %d devices as planned by the %s: %+v",
			c.Status, c.Outcomes("as-planned"), len(want), c.Source, c.Devices)
	}
}

func sample(t *testing.T, name string) []byte {
	t.Helper()
	return expect.File(t, filepath.Join(root, "testdata", "samples", name))
}

// TestKubeVirt boots the domain of 8 GPUs and 8 NICs as KubeVirt defines it at
// the end of its sequence of calls, with all of KubeVirt's other devices.
func TestKubeVirt(t *testing.T) {
	t.Parallel()
	b := newPC(t)
	name := "02-8gpu-8nic-gate-off"
	host := expect.File(t, filepath.Join(root, "testdata", "hosts", "x86-2n8g-hgx-h100.txtar"))
	sysfs := filepath.Join(t.TempDir(), "host.txtar")
	flags := []string{
		"--vmi", filepath.Join(root, "testdata", "samples", name+".vmi.json"), "--sysfs", sysfs,
		"--layout", "mirror",
	}

	expect.NoError(t, os.WriteFile(sysfs, host, 0o644))
	play := func(hook readback.Hook) []byte {
		_, answers := readback.V190.Sequence(t, sample(t, name+".xml"), sample(t, name+".vmi.json"),
			hook, b.libvirt.Readback)
		last, err := b.libvirt.Readback(answers[len(answers)-1])
		expect.NoError(t, err)
		return last
	}

	without := play(func(domain []byte) ([]byte, error) { return domain, nil })
	with := play(b.hook(flags...))
	plan, err := explain(b.binary, with, flags...)
	expect.NoError(t, err)

	// From here on the host's devices have the IDs of what the guest gets.
	expect.NoError(t, os.WriteFile(sysfs, withIDs(host, plan.ids(), nvme().ids), 0o644))
	firmwares := []Firmware{SeaBIOS, OVMF}
	if os.Getenv(Debian13Variable) != "" {
		firmwares = append(firmwares, OVMF2025)
	}

	for _, firmware := range firmwares {
		t.Run(string(firmware), func(t *testing.T) {
			t.Parallel()
			plain, placed := b.boot(t, without, firmware, nvme()), b.boot(t, with, firmware, nvme())
			b.checkGuest(t, placed, plan, with, flags)
			if len(placed.found()) != 16 {
				t.Errorf("%d devices, want 16", len(placed.found()))
			}

			// The NIC, two disks and their controllers, beside the chipset's own.
			if d := cmp.Diff(plain.others(), placed.others()); d != "" || len(plain.others()) < 7 {
				t.Errorf("other devices moved (-without the hook +with it):\n%s", d)
			}

			for _, name := range []string{"02:1f:4c:00:00:01", "ua-rootdisk", "ua-cloudinitdisk"} {
				if !strings.Contains(strings.Join(plain.others(), "\n"), name+" at") {
					t.Errorf("no %s in %q", name, plain.others())
				}
			}
		})
	}
}
