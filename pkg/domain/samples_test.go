package domain_test

import (
	"encoding/xml"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"
)

// samples returns the domains that KubeVirt and libvirt wrote, by file name.
func samples(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../testdata/samples/*.xml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}

	found := map[string]string{}
	for _, file := range files {
		src := expect.File(t, file)
		found[filepath.Base(file)] = string(src)
	}

	return found
}

func TestSamplesWithoutEdits(t *testing.T) {
	for name, src := range samples(t) {
		if got := apply(t, parse(t, src), domain.Changes{}); got != src {
			t.Errorf("%s: changed without edits", name)
		}
	}
}

// TestLibvirtTestdata reads libvirt's own test domains, from the directory that
// LIBVIRT_TESTDATA names (tests/ of its source tree). Each is refused or comes
// out unchanged; those that are refused are listed here with the reason.
func TestLibvirtTestdata(t *testing.T) {
	directory := os.Getenv("LIBVIRT_TESTDATA")
	if directory == "" {
		t.Skip("LIBVIRT_TESTDATA is not set")
	}

	refused := map[string]string{
		// libvirt refuses these as well: they are its cases of bad numbers.
		"pci-bridge-negative-index-invalid.xml": "attribute index",
		"pci-bus-invalid.xml":                   "attribute bus",
		"pci-domain-invalid.xml":                "attribute bus",
		"pci-function-invalid.xml":              "attribute function",
		"pci-slot-invalid.xml":                  "attribute slot",
		// Output of mdevctl that is not a document.
		"mdevctl-list-empty.out.xml":    "no element",
		"mdevctl-list-multiple.out.xml": "second root element",
	}

	read := 0
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".xml" || !entry.Type().IsRegular() {
			return err
		}

		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		d, err := domain.Parse(src)
		switch reason := refused[filepath.Base(path)]; {
		case err != nil && strings.Contains(err.Error(), "the root element is"):
		case err != nil && (reason == "" || !strings.Contains(err.Error(), reason)):
			t.Errorf("%s: %v", path, err)
		case err == nil:
			read++
			if apply(t, d, domain.Changes{}) != string(src) {
				t.Errorf("%s: changed without edits", path)
			}
		}

		return nil
	})

	if err != nil || read == 0 {
		t.Errorf("%d domains read under %s, error %v", read, directory, err)
	}
}

// placement changes all that a domain has: it sets modes, adds an expander bus,
// and places each hostdev on a port of its own.
func placement(d *domain.Domain) domain.Changes {
	next := 1
	for _, c := range d.Controllers {
		next = max(next, c.Index+1)
	}

	c := domain.Changes{
		Place: map[topology.DeviceID]*domain.GuestAddress{},
		AddControllers: []domain.Controller{{
			Index: next, Model: domain.ExpanderBus, Address: &domain.GuestAddress{Slot: 0x1c},
			BusNr: ptr(200), Cell: ptr(topology.CellID(0)),
		}},
	}

	for i, h := range d.Hostdevs {
		if !h.HasMode {
			c.SetMode = append(c.SetMode, h.ID)
		}

		port := next + 1 + i
		c.AddControllers = append(c.AddControllers, domain.Controller{
			Index: port, Model: domain.RootPort,
			Address:    &domain.GuestAddress{Bus: next, Slot: i % 32, Function: i / 32},
			HotplugOff: true,
		})

		c.Place[h.ID] = &domain.GuestAddress{Bus: port}
	}

	return c
}

// Adding and removing again gives the bytes that were there before: nothing
// outside the edits has changed.
func TestSamplesAndBack(t *testing.T) {
	for name, src := range samples(t) {
		t.Run(name, func(t *testing.T) {
			before := parse(t, src)
			changes := placement(before)
			changed := apply(t, before, changes)
			after := parse(t, changed)
			if got := apply(t, after, domain.Changes{
				Place: changes.Place, SetMode: changes.SetMode,
			}); got != changed {
				t.Error("the same places change something the second time")
			}

			back := domain.Changes{Place: map[topology.DeviceID]*domain.GuestAddress{}}
			for _, h := range before.Hostdevs {
				back.Place[h.ID] = h.Address
			}

			for _, c := range after.Controllers[len(before.Controllers):] {
				back.RemoveControllers = append(back.RemoveControllers, c.Index)
			}

			got := apply(t, after, back)
			want := apply(t, before, domain.Changes{SetMode: changes.SetMode})
			expect.Same(t, hexBuses(want), hexBuses(got), "there and back (-want +got)")

			if got := strings.Count(want, ` mode="subsystem"`) - strings.Count(src,
				` mode="subsystem"`); got != len(changes.SetMode) ||
				len(want)-len(src) != got*len(` mode="subsystem"`) {
				t.Errorf("%d modes and %d bytes were set for %d hostdevs", got, len(want)-len(src),
					len(changes.SetMode))
			}
		})
	}
}

// hexBuses returns a domain with the buses of guest addresses as Apply writes them: KubeVirt
// writes decimal numbers.
func hexBuses(src string) string {
	return regexp.MustCompile(` bus="(\d)" `).ReplaceAllString(src, ` bus="0x0$1" `)
}

// What Apply adds is what virt-launcher writes for the same device (KubeVirt
// v1.9 pkg/virt-launcher/virtwrap/device/hostdevice, its output after
// MarshalIndent), except the mode, which KubeVirt leaves out of PCI devices.
func TestAddedHostdevsAreVirtLaunchers(t *testing.T) {
	for _, test := range []struct {
		name string
		add  domain.Hostdev
		want string
	}{
		{
			"pci", domain.Hostdev{ID: pci("0000:81:00.0"), Alias: "ua-gpu-gpu1"},
			`<hostdev type="pci" managed="no" mode="subsystem"><source>` +
				`<address type="pci" domain="0x0000" bus="0x81" slot="0x00" function="0x0">` +
				`</address></source><alias name="ua-gpu-gpu1"></alias></hostdev>`,
		},
		{
			"pci with display",
			domain.Hostdev{
				ID: pci("0000:81:00.4"), Alias: "ua-gpu-vgpu", Display: true, RamFB: true,
			},
			`<hostdev type="pci" managed="no" mode="subsystem" display="on" ramfb="on"><source>` +
				`<address type="pci" domain="0x0000" bus="0x81" slot="0x00" function="0x4">` +
				`</address></source><alias name="ua-gpu-vgpu"></alias></hostdev>`,
		},
		{
			"mdev", domain.Hostdev{ID: mdev(uuid), Alias: "ua-hostdevice-m"},
			`<hostdev type="mdev" mode="subsystem" model="vfio-pci"><source><address uuid="` +
				uuid + `"></address></source><alias name="ua-hostdevice-m"></alias></hostdev>`,
		},
		{
			"mdev with display and an address",
			domain.Hostdev{
				ID:      mdev(uuid),
				Alias:   "ua-gpu-v",
				Display: true,
				RamFB:   true,
				Address: &domain.GuestAddress{Bus: 4},
			},
			`<hostdev type="mdev" mode="subsystem" model="vfio-pci" display="on" ramfb="on">` +
				`<source><address uuid="` + uuid +
				`"></address></source>` +
				`<address type="pci" domain="0x0000" bus="0x04" slot="0x00" function="0x0">` +
				`</address><alias name="ua-gpu-v"></alias></hostdev>`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want libvirtxml.DomainHostdev
			expect.NoError(t, xml.Unmarshal([]byte(test.want), &want))
			changed := apply(t, parse(t, in(usbLine)), domain.Changes{
				AddHostdevs: []domain.Hostdev{test.add},
			})

			var got libvirtxml.Domain
			expect.NoError(t, got.Unmarshal(changed))
			expect.Same(t, []libvirtxml.DomainHostdev{
				want,
			}, got.Devices.Hostdevs, "hostdev (-want +got)")

			read := parse(t, changed).Hostdevs[0]
			test.add.HasMode = true
			if diff := cmp.Diff(test.add, read, equal); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}
