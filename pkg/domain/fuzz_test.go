package domain_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

func seed(f *testing.F, add func(src []byte)) {
	for _, src := range samples(f) {
		add([]byte(src))
	}
	add([]byte(in(gpu(aliasLine) + portLine + usbLine)))
	add([]byte(devices(`<hostdev type='pci'><source><address bus='1'/></source>` +
		`<address bus='0x00'/></hostdev>`)))
}

// FuzzParse: Parse never panics, and what it accepts comes out unchanged.
func FuzzParse(f *testing.F) {
	seed(f, func(src []byte) { f.Add(src) })
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := domain.Parse(src)
		if err != nil {
			var at *domain.Error
			if !errors.As(err, &at) || at.Line < 1 || at.Column < 1 {
				t.Fatalf("Parse: %v", err)
			}
			return
		}

		if got := apply(t, d, domain.Changes{}); got != string(src) {
			t.Errorf("without edits:\n%q, want\n%q", got, src)
		}
	})
}

// FuzzApply: the result of Apply is read back as intended, and the same
// changes again change nothing.
func FuzzApply(f *testing.F) {
	seed(f, func(src []byte) { f.Add(src, uint8(3), uint8(2), uint8(1), "ua-x") })
	f.Fuzz(func(t *testing.T, src []byte, bus, slot, index uint8, alias string) {
		d, err := domain.Parse(src)
		a := domain.GuestAddress{
			Bus:           int(bus),
			Slot:          int(slot & 31),
			Function:      int(slot >> 5),
			Multifunction: index&1 == 1,
		}

		if err != nil || len(src) > 1<<18 || bytes.Count(src, []byte("<")) > 20_000 ||
			len(d.Hostdevs) < 3 || bus|slot == 0 || hasTwins(d) {
			return
		}

		changes := domain.Changes{
			Place:       map[topology.DeviceID]*domain.GuestAddress{d.Hostdevs[slot%3].ID: &a},
			SetMode:     []topology.DeviceID{d.Hostdevs[0].ID},
			AddHostdevs: []domain.Hostdev{{ID: mdev(uuid), Alias: alias}},
			AddControllers: []domain.Controller{
				{Index: int(index), Model: domain.RootPort, Address: &a},
			},
			Complete: map[domain.Entry]domain.Completion{},
		}

		for _, o := range d.Others {
			if o.Address == nil && (o.AddressType == "" || o.AddressType == "pci") {
				changes.Complete[o.Entry()] = domain.Completion{Address: &a}
			}
		}

		changed := apply(t, d, changes)
		after := parse(t, changed)
		for i, o := range d.Others {
			if _, isOpen := changes.Complete[o.Entry()]; isOpen &&
				!topology.Same(after.Others[i].Address, &a) {
				t.Errorf("%s %+v, want it at %+v", o.Element, after.Others[i].Address, a)
			}
		}

		got := after.Hostdevs[slot%3]
		if got.Address == nil || *got.Address != a || !after.Hostdevs[0].HasMode {
			t.Errorf("hostdev %+v, want it at %+v", got, a)
		}

		if len(after.Hostdevs) != len(d.Hostdevs)+1 ||
			len(after.Controllers) != len(d.Controllers)+1 {
			t.Errorf("%d hostdevs and %d controllers", len(after.Hostdevs), len(after.Controllers))
		}

		again := apply(t, after, domain.Changes{Place: changes.Place, SetMode: changes.SetMode})
		expect.Same(t, changed, again, "second time (-first +second)")
	})
}

// hasTwins reports whether a device appears twice, which libvirt refuses.
func hasTwins(d *domain.Domain) bool {
	known := map[topology.DeviceID]bool{}
	for _, h := range d.Hostdevs {
		if known[h.ID] {
			return true
		}
		known[h.ID] = true
	}

	return false
}

// FuzzSetOptions: an option is read back as it was set, the same again changes nothing,
// and all of the domain's other options stay.
func FuzzSetOptions(f *testing.F) {
	seed(f, func(src []byte) { f.Add(src, true) })
	f.Add([]byte("<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:commandline>"+
		"<q:arg value='-global'/><q:arg value='a.b=c'/><q:env/></q:commandline></domain>"), true)
	f.Add([]byte("<domain><commandline xmlns='http://libvirt.org/schemas/domain/qemu/1.0'>"+
		"<arg value='--fw_cfg'/>\n<arg value='id=hook-sidecar-a'/></commandline></domain>"), false)
	f.Fuzz(func(t *testing.T, src []byte, isSet bool) {
		d, err := domain.Parse(src)
		if err != nil || len(src) > 1<<18 {
			return
		}

		changes := with(optionID)
		if isSet {
			changes = with(optionID, domain.Option{Name: domain.OptionGlobal, Value: optionValue})
		}

		result, err := d.Apply(changes)
		if err != nil {
			return // the last option has no value
		}

		changed, after := string(result), parse(t, string(result))
		if err := after.Verify(d.After(changes)); err != nil {
			t.Errorf("%v: %s", err, changed)
		}

		if again := apply(t, after, changes); again != changed {
			t.Errorf("second time:\n%s\nwant\n%s", again, changed)
		}
	})
}

func many(hostdevs int) string {
	var all strings.Builder
	for i := range hostdevs {
		fmt.Fprintf(&all, "\n\t\t<hostdev type=\"pci\" managed=\"no\">\n\t\t\t<source>\n\t\t\t\t"+
			"<address type=\"pci\" domain=\"0x%04x\" bus=\"0x01\" slot=\"0x00\" "+
			"function=\"0x0\"></address>\n"+
			"\t\t\t</source>\n\t\t\t<alias name=\"ua-gpu-%d\"></alias>\n\t\t</hostdev>", i, i)
	}

	return in(all.String() + usbLine)
}

// The time for each hostdev must not grow with their number.
func BenchmarkParseAndApply(b *testing.B) {
	for _, hostdevs := range []int{1, 16, 64, 200} {
		src := []byte(many(hostdevs))
		b.Run(fmt.Sprint(hostdevs), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, err := domain.Parse(src)
				expect.NoError(b, err)
				if _, err := d.Apply(placement(d)); err != nil {
					b.Fatal(err)
				}
			}

			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*hostdevs), "ns/hostdev")
		})
	}
}
