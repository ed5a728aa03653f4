package boot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/test/oracle"
	"hook-sidecar/test/readback"
)

const root = "../.."

// bench is what the boots of a test have in common.
type bench struct {
	lab     *Lab
	libvirt *oracle.Libvirt
	binary  string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	kernel := os.Getenv(KernelVariable)
	if kernel == "" {
		t.Skipf("%s is not set; `make boot` sets it", KernelVariable)
	}
	b := &bench{libvirt: oracle.New(t), binary: filepath.Join(t.TempDir(), "hook-sidecar")}
	build := exec.Command("go", "build", "-o", b.binary, "./cmd/hook-sidecar")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	var err error
	if b.lab, err = newLab(t.TempDir(), kernel); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		boots, retries := b.lab.Counts()
		t.Logf("%d boots, of which %d because a guest had hung", boots, retries)
	})
	return b
}

// boot boots a domain that libvirt has read back.
func (b *bench) boot(t *testing.T, domain []byte, firmware Firmware) *Guest {
	t.Helper()
	args, err := arguments(b.libvirt, domain)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := b.lab.Boot(t.Context(), args, firmware)
	if err != nil {
		t.Fatal(err)
	}
	return guest
}

// hook is the program under test, called as `mutate`.
func (b *bench) hook(flags ...string) readback.Hook {
	return func(domain []byte) ([]byte, error) { return mutate(b.binary, domain, flags...) }
}

func sample(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "testdata", "samples", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestKubeVirt boots the domain of 8 GPUs and 8 NICs as KubeVirt defines it at
// the end of its sequence of calls, with all of KubeVirt's other devices.
func TestKubeVirt(t *testing.T) {
	b := newBench(t)
	name := "02-8gpu-8nic-gate-off"
	flags := []string{"--vmi", filepath.Join(root, "testdata", "samples", name+".vmi.json"),
		"--sysfs", filepath.Join(root, "testdata", "hosts", "x86-2n8g-hgx-h100.txtar"), "--layout", "mirror"}
	play := func(hook readback.Hook) []byte {
		_, answers := readback.V190.Sequence(t, sample(t, name+".xml"), sample(t, name+".vmi.json"), hook, b.libvirt.Readback)
		last, err := b.libvirt.Readback(answers[len(answers)-1])
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	without := play(func(domain []byte) ([]byte, error) { return domain, nil })
	with := play(b.hook(flags...))
	plan, err := explain(b.binary, with, flags...)
	if err != nil {
		t.Fatal(err)
	}
	for _, firmware := range []Firmware{SeaBIOS, OVMF} {
		t.Run(string(firmware), func(t *testing.T) {
			t.Parallel()
			plain, placed := b.boot(t, without, firmware), b.boot(t, with, firmware)
			if d := cmp.Diff(plan.Expectations(), placed.found()); d != "" || len(placed.found()) != 16 {
				t.Errorf("%d devices (-planned +in the guest):\n%s", len(placed.found()), d)
			}
			checkFirmware(t, placed)
			// The NIC, two disks and their controllers, beside the chipset's own.
			if d := cmp.Diff(plain.others(), placed.others()); d != "" || len(plain.others()) < 7 {
				t.Errorf("other devices move (-without the hook +with it):\n%s", d)
			}
			for _, name := range []string{"02:1f:4c:00:00:01", "ua-rootdisk", "ua-cloudinitdisk"} {
				if !strings.Contains(strings.Join(plain.others(), "\n"), name+" at") {
					t.Errorf("no %s in %q", name, plain.others())
				}
			}
		})
	}
}
