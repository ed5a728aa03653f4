package kubevirt

import (
	"encoding/xml"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"libvirt.org/go/libvirtxml"

	"hook-sidecar/test/oracle"
)

// samples are the domains that KubeVirt made, each with the host that has its
// devices and the number of devices that each layout places. Only sample 02 has
// guest NUMA, without which layout numa places nothing.
func samples() []struct {
	name, host string
	placed     map[string]int
} {
	return []struct {
		name, host string
		placed     map[string]int
	}{
		{"01-single-gpu", "x86-2n8g-hgx-h100", map[string]int{"keep": 0, "numa": 0, "root": 1, "mirror": 1}},
		{"02-8gpu-8nic-gate-off", "x86-2n8g-hgx-h100", map[string]int{"keep": 0, "numa": 16, "root": 16, "mirror": 16}},
		{"03-vgpu-mdev-display", "x86-2n2g-t4-vgpu", map[string]int{"keep": 0, "numa": 0, "root": 1, "mirror": 1}},
		{"04-hostdevices-pci-usb", "x86-2n8g-hgx-h100", map[string]int{"keep": 0, "numa": 0, "root": 1, "mirror": 1}},
	}
}

// TestSamples: the samples are what KubeVirt's types print, byte for byte, so that
// these tests begin as a boot begins.
func TestSamples(t *testing.T) {
	for _, s := range samples() {
		spec := firstSpec(t, s.name)
		spec.XmlNS = qemuNamespace
		printed, err := xml.MarshalIndent(spec, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.TrimSpace(string(sample(t, s.name+".xml"))), string(printed)); d != "" {
			t.Errorf("%s (-sample +KubeVirt):\n%s", s.name, d)
		}
	}
}

// TestBoot plays whole boots: every sample with every layout. The places of the
// first call are those after the last definition, one more call changes nothing,
// and disks and NICs are where they are without the hook.
func TestBoot(t *testing.T) {
	lib := oracle.New(t)
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			sidecar := start(t, "hook-sidecar-0", s.host)
			manager := launcher(t, 1)
			without := (&boot{t: t, vmi: sampleVMI(t, s.name, nil), hook: identity, libvirt: lib}).run(sample(t, s.name+".xml"))
			for _, layout := range []string{"keep", "numa", "root", "mirror"} {
				t.Run(layout, func(t *testing.T) {
					vmi := sampleVMI(t, s.name, map[string]string{"layout": layout})
					ask := legacy(manager.OnDefineDomain, vmi)
					calls := (&boot{t: t, vmi: vmi, hook: ask, libvirt: lib}).run(sample(t, s.name+".xml"))
					checkBoot(t, calls, without, s.placed[layout])
					checkStable(t, ask, calls[len(calls)-1])
				})
			}
			if err := manager.Shutdown(); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			sidecar.ended(t)
		})
	}
}

func checkBoot(t *testing.T, calls, without []call, count int) {
	t.Helper()
	if len(calls) != len(without) || len(calls) < 2 {
		t.Errorf("%d calls, %d without the hook, want the same number and two or more", len(calls), len(without))
	}
	last := calls[len(calls)-1].readback
	planned := placed(t, []byte(calls[0].answer))
	if len(planned) != count {
		t.Errorf("the first call places %d devices, want %d: %v", len(planned), count, planned)
	}
	for i, c := range calls {
		if d := cmp.Diff(planned, placed(t, c.readback)); d != "" {
			t.Errorf("after call %d (-planned at the first +libvirt):\n%s", i+1, d)
		}
		checkReadable(t, c.answer)
	}
	for id, place := range planned {
		if !strings.Contains(place, "hotplug=off") {
			t.Errorf("%s: its port allows hotplug: %s", id, place)
		}
	}
	if d := cmp.Diff(others(t, without[len(without)-1].readback), others(t, last)); d != "" {
		t.Errorf("disks, NICs or controllers moved (-without the hook +with it):\n%s", d)
	}
}

// checkStable: one more call with the last readback changes nothing.
func checkStable(t *testing.T, ask hook, last call) {
	t.Helper()
	spec := &api.DomainSpec{}
	if err := xml.Unmarshal(last.readback, spec); err != nil {
		t.Fatal(err)
	}
	again, err := ask(spec)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(placed(t, last.readback), placed(t, []byte(again))); d != "" {
		t.Errorf("one more call moved devices (-last readback +answer):\n%s", d)
	}
}

// checkReadable: KubeVirt's plugin pipeline reads domains with libvirtxml, which
// refuses a hostdev without mode. KubeVirt's PCI hostdevs come without one.
func checkReadable(t *testing.T, answer string) {
	t.Helper()
	if err := new(libvirtxml.Domain).Unmarshal(answer); err != nil {
		t.Errorf("libvirtxml: %v", err)
	}
}

// TestVersions: virt-launcher finds the program with each version of the hooks. The
// program exits with status 0 after Shutdown, or after the kubelet's SIGTERM in the
// versions without Shutdown.
func TestVersions(t *testing.T) {
	name := "02-8gpu-8nic-gate-off"
	for _, version := range []string{"v1alpha1", "v1alpha2", "v1alpha3"} {
		t.Run(version, func(t *testing.T) {
			sidecar := start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100", "--version", version)
			manager := launcher(t, 1)
			answer, err := manager.OnDefineDomain(firstSpec(t, name), sampleVMI(t, name, nil))
			if err != nil {
				t.Fatal(err)
			}
			if got := placed(t, []byte(answer)); len(got) != 16 {
				t.Errorf("%d devices placed, want 16", len(got))
			}
			if err := manager.Shutdown(); err != nil {
				t.Error(err)
			}
			if version != "v1alpha3" {
				if err := sidecar.command.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			sidecar.ended(t)
		})
	}
}

// TestTwoSidecars: virt-launcher tells sockets apart by their file name, and passes
// the first sidecar's answer to the second.
func TestTwoSidecars(t *testing.T) {
	name := "02-8gpu-8nic-gate-off"
	start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100")
	one, err := launcher(t, 1).OnDefineDomain(firstSpec(t, name), sampleVMI(t, name, nil))
	if err != nil {
		t.Fatal(err)
	}
	start(t, "hook-sidecar-1", "x86-2n8g-hgx-h100")
	two, err := launcher(t, 2).OnDefineDomain(firstSpec(t, name), sampleVMI(t, name, nil))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(one, two); d != "" {
		t.Errorf("the second sidecar changes the first one's answer:\n%s", d)
	}
}

// TestStrict: a refusal reaches virt-launcher as an error that names the device and
// the remedy. KubeVirt copies it to the VMI's event.
func TestStrict(t *testing.T) {
	name := "01-single-gpu"
	start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100")
	_, err := launcher(t, 1).OnDefineDomain(firstSpec(t, name), sampleVMI(t, name, map[string]string{"strict": "true"}))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"FailedPrecondition", "0000:1b:00.0", "no-guest-numa", "guestMappingPassthrough"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error without %q: %v", want, err)
		}
	}
}

func firstSpec(t *testing.T, name string) *api.DomainSpec {
	t.Helper()
	spec := &api.DomainSpec{}
	if err := xml.Unmarshal(sample(t, name+".xml"), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}
