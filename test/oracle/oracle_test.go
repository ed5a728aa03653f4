package oracle

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

const samples = "../../testdata/samples/"

func sampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(samples + "*.xml")
	if err != nil || len(files) != 18 {
		t.Fatalf("samples: %d files, %v, want the 18 that were recorded", len(files), err)
	}

	return files
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content := expect.File(t, file)
	return content
}

// TestSamplesPass: domains that KubeVirt and libvirt made without this project pass
// the check.
func TestSamplesPass(t *testing.T) {
	libvirt := New(t)
	for _, file := range sampleFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, notes := prepare(read(t, file), rulesOf(libvirt.version))
			t.Logf("stripped: %q", notes)
			readback := libvirt.Check(t, read(t, file))
			if !strings.Contains(string(readback), "<hostdev mode='subsystem'") {
				t.Errorf("no hostdev in the readback:\n%s", readback)
			}
		})
	}
}

// good has two NUMA cells, two expander buses with a root port and a GPU each, the
// second GPU under a switch, and a device without address.
const good = `<domain type='qemu'>
  <name>it's "good" &amp; small</name>
  <memory unit='MiB'>512</memory>
  <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cpu><numa><cell id='0' cpus='0' memory='256' unit='MiB'/><cell id='1' cpus='1' memory='256' unit='MiB'/></numa></cpu>
  <devices>
    <controller type='usb' index='0' model='none'/>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='pci' index='1' model='pcie-root-port'/>
    <controller type='pci' index='2' model='pcie-expander-bus'><target busNr='100'><node>0</node></target><address type='pci' domain='0x0000' bus='0x00' slot='0x1c' function='0x0'/></controller>
    <controller type='pci' index='3' model='pcie-expander-bus'><target busNr='180'><node>1</node></target><address type='pci' domain='0x0000' bus='0x00' slot='0x19' function='0x0'/></controller>
    <controller type='pci' index='4' model='pcie-root-port'><target hotplug='off'/><address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></controller>
    <controller type='pci' index='5' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x03' slot='0x00' function='0x0'/></controller>
    <controller type='pci' index='6' model='pcie-switch-upstream-port'><address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/></controller>
    <controller type='pci' index='7' model='pcie-switch-downstream-port'><address type='pci' domain='0x0000' bus='0x06' slot='0x00' function='0x0'/></controller>
    <hostdev mode='subsystem' type='pci' managed='no'><source><address domain='0x0000' bus='0x3b' slot='0x00' function='0x0'/></source><alias name='ua-gpu0'/><address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/></hostdev>
    <hostdev mode='subsystem' type='pci' managed='no'><source><address domain='0x0000' bus='0x5e' slot='0x00' function='0x0'/></source><alias name='ua-gpu1'/><address type='pci' domain='0x0000' bus='0x07' slot='0x00' function='0x0'/></hostdev>
    <memballoon model='none'/>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>`

// change replaces text that must be there.
func change(t *testing.T, pairs ...string) []byte {
	t.Helper()
	text := good
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the good domain has no %q", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}

	return []byte(text)
}

func TestGoodPasses(t *testing.T) {
	libvirt := New(t)
	t.Run("q35", func(t *testing.T) { libvirt.Check(t, []byte(good)) })
	t.Run("virt", func(t *testing.T) {
		libvirt.Check(t, change(t, "arch='x86_64' machine='q35'", "arch='aarch64' machine='virt'"))
	})
}

// TestReadbackIsTheCallers: who changes what Readback returned does not change what it returns next.
func TestReadbackIsTheCallers(t *testing.T) {
	libvirt := New(t)
	first, err := libvirt.Readback([]byte(good))
	expect.NoError(t, err)
	want := string(first)
	clear(first)
	again, err := libvirt.Readback([]byte(good))
	expect.NoError(t, err)
	expect.Same(t, want, string(again), "the domain as it is read back again (-first +again)")
}

const gpu0 = "<alias name='ua-gpu0'/>" +
	"<address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/>"

// TestRefused shows that the check can fail. The words
// are libvirt 9.0's.
func TestRefused(t *testing.T) {
	libvirt := New(t)
	cases := []struct {
		name, from, to, words string
	}{
		{"guest address twice", "bus='0x07' slot", "bus='0x04' slot",
			"Attempted double use of PCI Address"},
		{"host device twice", "bus='0x5e'", "bus='0x3b'", "Hostdev already exists"},
		{"hostdev on an expander bus", gpu0, strings.Replace(gpu0, "0x04", "0x02", 1),
			"cannot be plugged into the PCI controller with index='2'"},
		{"busNr 255", "busNr='180'", "busNr='255'", "PCI controller busNr '255' out of range"},
		{"node without cell", "<node>1</node>", "<node>7</node>",
			"configured for a NUMA node (7) not present"},
		{"slot 1 under a root port", gpu0, strings.Replace(gpu0, "slot='0x00'", "slot='0x01'", 1),
			"slot must be <= 0"},
		{"index twice", "index='7'", "index='6'", "Multiple 'pci' controllers with index '6'"},
		{"unknown element", "<rng model", "<foo/><rng model", "failed to validate"},
		{"unknown attribute", "<alias name='ua-gpu0'/>", "<alias name='ua-gpu0' x='1'/>",
			"failed to validate"},
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := libvirt.Examine(change(t, c.from, c.to))
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want one with %q", err, c.words)
			}
		})
	}

	t.Run("no XML", func(t *testing.T) {
		if _, err := libvirt.Examine([]byte("<domain>")); err == nil {
			t.Error("no error")
		}
	})

	t.Run("and then a good one", func(t *testing.T) { libvirt.Check(t, []byte(good)) })
}

// TestAcceptedButWrong: libvirt accepts these, and the check must report them.
func TestAcceptedButWrong(t *testing.T) {
	libvirt := New(t)
	cases := []struct {
		name, words string
		pairs       []string
	}{
		{"hole in the indexes", "no controller has index 6", []string{
			"index='6'", "index='8'", "index='7'", "index='9'", "bus='0x06'", "bus='0x08'",
			"bus='0x07'", "bus='0x09'"}},
		{"address on a bus without controller", "no controller has index 8", []string{
			gpu0, strings.Replace(gpu0, "0x04", "0x09", 1)}},
		// gpu0 takes the port of the root bus, and the rng the one that gpu0 left.
		{"free port under an expander bus", "rng is placed under expander bus 2", []string{
			gpu0, "<alias name='ua-gpu0'/>"}},
		{"bus number twice", "needs 2, has 0", []string{"busNr='180'", "busNr='100'"}},
		{"bus numbers overlap", "root bus 2 starts at bus number 100 and needs 2, has 1", []string{
			"busNr='180'", "busNr='101'",
		}},
		{"no number left for the switch", "root bus 3 starts at bus number 254 and needs 4, has 2",
			[]string{
				"busNr='180'", "busNr='254'",
			}},
		{"root bus has no number left", "root bus 0 starts at bus number 0 and needs 2, has 1",
			[]string{
				"busNr='100'", "busNr='1'",
			}},
		{"function 1 alone", "no device has function 0 of slot 0000:04:00.0", []string{
			gpu0, strings.Replace(gpu0, "function='0x0'", "function='0x1'", 1)}},
		{"child before parent", "controller 5 is on bus 6", []string{
			"index='5'", "index='y'", "index='6'", "index='5'", "index='y'", "index='6'",
			"bus='0x05'", "bus='0x0y'", "bus='0x06'", "bus='0x05'", "bus='0x0y'", "bus='0x06'"}},
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			examined, err := libvirt.Examine(change(t, c.pairs...))
			if err != nil {
				t.Fatalf("libvirt refuses: %v", err)
			}

			if !slices.ContainsFunc(examined.Findings, func(f string) bool {
				return strings.Contains(f, c.words)
			}) {
				t.Errorf("findings %q, want one with %q", examined.Findings, c.words)
			}
		})
	}
}
