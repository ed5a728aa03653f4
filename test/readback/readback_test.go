package readback

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

const samples = "../../testdata/samples/"

func sample(t *testing.T, name string) []byte {
	t.Helper()
	content := expect.File(t, filepath.Join(samples, name))
	return content
}

func identity(domain []byte) ([]byte, error) { return domain, nil }

// recorded is one boot of testdata/samples: KubeVirt's own code and libvirt
// 9.0 with a hook that changes nothing.
type recorded struct {
	name         string
	placeholders int // 4 - interfaces
	source       int // extra ports by the formula in KubeVirt's source
	recorded     int // extra ports in the recording
}

// The recording of 01 and 03 has fewer extra ports than the formula gives: it
// was made with the formula run after the readback, when the added controllers
// are counted too and the result is the minimum of 6 less 3 placeholders. The
// source runs it before the first call: 16 - 9 ports in use - 3 = 4 for 01,
// 16 - 8 - 3 = 5 for 03 (an mdev is not counted). In 02 and 04 the minimum
// applies either way.
func recordings() []recorded {
	return []recorded{
		{"01-single-gpu", 3, 4, 3},
		{"02-8gpu-8nic-gate-off", 0, 6, 6},
		{"03-vgpu-mdev-display", 3, 5, 3},
		{"04-hostdevices-pci-usb", 3, 3, 3},
	}
}

// recordedLibvirt reads back what libvirt 9.0 did in the recording.
func recordedLibvirt(t *testing.T, name string) Lib {
	return func([]byte) ([]byte, error) { return sample(t, name+".libvirt9-inactive.xml"), nil }
}

// TestSequenceReproducesTheRecordings: in a whole boot, with KubeVirt's real readback from
// libvirt 9.0, the calls are the recorded ones byte for byte, except that extra ports are
// counted as the source counts them.
func TestSequenceReproducesTheRecordings(t *testing.T) {
	for _, r := range recordings() {
		t.Run(r.name, func(t *testing.T) {
			calls, answers := Main.Sequence(t, sample(t, r.name+".xml"),
				sample(t, r.name+".vmi.json"), identity, recordedLibvirt(t, r.name))
			if !slices.EqualFunc(calls, answers, slices.Equal) {
				t.Error("the identity hook's answers are not its calls")
			}

			want := [][]byte{sample(t, r.name+".xml")}
			if r.placeholders > 0 {
				want = append(want, sample(t, r.name+".call2.xml"))
			}

			last, err := AppendRootPorts(sample(t, r.name+".calllast.xml"), r.source-r.recorded)
			expect.NoError(t, err)
			want = append(want, last)
			if len(calls) != len(want) {
				t.Fatalf("%d calls, want %d", len(calls), len(want))
			}

			for i := range want {
				compare(t, r.name, want[i], calls[i])
			}
		})
	}
}

// TestReleaseDoesNotReadBackWithoutPlaceholders: v1.9.0 makes the same calls where
// there are placeholders. Without them it does not read back before its last call,
// which has no addresses then.
func TestReleaseDoesNotReadBackWithoutPlaceholders(t *testing.T) {
	name := "02-8gpu-8nic-gate-off"
	calls, _ := V190.Sequence(t, sample(t, name+".xml"), sample(t, name+".vmi.json"), identity,
		recordedLibvirt(t, name))
	if len(calls) != 2 {
		t.Fatalf("%d calls, want 2", len(calls))
	}

	spec, err := V190.Remarshal(sample(t, name+".xml"))
	expect.NoError(t, err)
	want, err := AppendRootPorts(spec, 6)
	expect.NoError(t, err)
	compare(t, "last call", want, calls[1])
}

func TestRemarshalLoses(t *testing.T) {
	in := `<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><name>a</name>
<devices>
<hostdev mode="subsystem" type="pci" managed="no"><driver name="vfio"></driver><source><address domain="0x0000" bus="0x1b" slot="0x00" function="0x0"></address></source><rom bar="off"></rom><address type="pci" domain="0x0000" bus="0x02" slot="0x00" function="0x0" multifunction="on"></address></hostdev>
<controller type="pci" index="1" model="pcie-expander-bus"><model name="pxb-pcie"></model><target busNr="247"><node>0</node></target></controller>
<controller type="pci" index="2" model="pcie-root-port"><target chassis="2" port="0x0" hotplug="off"></target></controller>
</devices><qemu:override></qemu:override></domain>`

	cases := []struct {
		version Version
		want    string // the target of the root port
	}{
		{V190, "<target></target>"},
		{Main, `<target hotplug="off"></target>`},
	}

	for _, c := range cases {
		out, err := c.version.Remarshal([]byte(in))
		expect.NoError(t, err)
		text := string(out)
		for _, gone := range []string{
			"multifunction", "rom", "chassis", "port=", "pxb-pcie", "qemu", "vfio",
		} {
			if strings.Contains(text, gone) {
				t.Errorf("version %d keeps %q:\n%s", c.version, gone, text)
			}
		}

		for _, kept := range []string{
			`<hostdev type="pci" managed="no" mode="subsystem">`, `<driver></driver>`,
			"<target busNr=\"247\">\n\t\t\t\t<node>0</node>\n\t\t\t</target>", c.want,
		} {
			if !strings.Contains(text, kept) {
				t.Errorf("version %d loses %q:\n%s", c.version, kept, text)
			}
		}
	}
}

func TestRemarshalRefuses(t *testing.T) {
	for _, bad := range []string{
		"", "<domainsnapshot></domainsnapshot>",
		// encoding/xml cannot read hexadecimal into KubeVirt's integer.
		`<domain><devices><controller type="pci" index="1"><target busNr="0xf7"></target>` +
			`</controller></devices></domain>`,
	} {
		if out, err := V190.Remarshal([]byte(bad)); err == nil {
			t.Errorf("Remarshal(%s) = %s, want an error", bad, out)
		}
	}
}

// TestPortsStopAt31: no root port gets an index above 31.
func TestPortsStopAt31(t *testing.T) {
	out, err := AppendRootPorts(
		[]byte(`<domain><devices><controller type="pci" index="30"/></devices></domain>`), 6)
	if got := strings.Count(string(out), "<controller"); got != 2 || err != nil {
		t.Errorf("%d controllers, want 30 and 31, error %v", got, err)
	}
}

func compare(t *testing.T, what string, want, got []byte) {
	t.Helper()
	expect.Same(t, string(want), string(got), "%s (-recorded +model)", what)
}
