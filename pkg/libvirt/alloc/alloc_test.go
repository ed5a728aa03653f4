package alloc_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/shapes"
	"hook-sidecar/test/tree"
)

// TestLikeLibvirt compares the simulation with a real libvirt on random domains: every controller
// and device has the address that libvirt gives it. ALLOC_DOMAINS is how many.
func TestLikeLibvirt(t *testing.T) {
	count := 150
	if text := os.Getenv("ALLOC_DOMAINS"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		expect.NoError(t, err)
	}

	lib := oracle.New(t)
	machine := alloc.Libvirt{Version: alloc.Libvirt9, HasLSI: true}
	switch {
	case lib.AddsPortForBridge():
		machine.Version = alloc.Libvirt12
	case lib.IsByIndex():
		machine.Version = alloc.Libvirt11
	}

	accepted, refusals := 0, map[string]int{}
	for seed := range uint64(count) {
		xml := shapes.Random(seed).XML
		got, simulated := simulate(t, xml, machine)
		back, err := lib.Readback(xml)
		if err != nil {
			refusals[firstError.FindString(err.Error())]++
			if simulated == nil && aboutPCI.MatchString(err.Error()) {
				t.Errorf("seed %d: libvirt refuses, the simulation does not: %v", seed, err)
			}
			continue
		}

		if simulated != nil {
			t.Errorf("seed %d: the simulation refuses, libvirt does not: %v", seed, simulated)
			continue
		}

		accepted++
		if want := addresses(t, back); !equal(want, got) {
			expect.Same(t, want, got, "seed %d (-libvirt +simulation)\n%s", seed, xml)
		}
	}

	t.Logf("%d of %d domains are accepted, others refused: %v", accepted, count, refusals)
	if accepted < count*3/4 {
		t.Errorf("libvirt accepts %d of %d domains", accepted, count)
	}
}

// firstError is libvirt's reason for a refusal.
var firstError = regexp.MustCompile(`(?m)^error: [^F].*`)

var aboutPCI = regexp.MustCompile(`(?i)pci`)

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}

	for name, at := range a {
		if b[name] != at {
			return false
		}
	}

	return true
}

// simulate returns the addresses by name.
func simulate(t *testing.T, xml []byte, m alloc.Libvirt) (map[string]string, error) {
	t.Helper()
	d, err := domain.Parse(xml)
	expect.NoError(t, err)
	layout, err := alloc.Simulate(libvirt.NewGuest(d), m)
	if err != nil {
		return nil, err
	}

	all := map[string]string{}
	add := func(name string, a *domain.GuestAddress) {
		if a != nil {
			all[name] = fmt.Sprintf("%02x:%02x.%x", a.Bus, a.Slot, a.Function)
		}
	}

	for _, c := range layout.Domain.Controllers {
		add(fmt.Sprintf("controller %d %s", c.Index, c.Model), c.Address)
	}

	for _, h := range layout.Domain.Hostdevs {
		add(h.Alias, h.Address)
	}

	for _, o := range layout.Devices {
		add(name(o.Alias, o.Element, o.Type, o.Index, o.Model), o.Address)
	}

	return all, nil
}

// addresses returns the addresses of a domain that libvirt has read back, by name.
func addresses(t *testing.T, back []byte) map[string]string {
	t.Helper()
	read, err := tree.Read(back)
	expect.NoError(t, err)
	all := map[string]string{}
	for _, d := range read.Devices {
		if d.At == nil {
			continue
		}

		label := name(d.Find("alias").Attr("name"), d.Name, d.Attr("type"), d.Attr("index"),
			d.Attr("model"))
		if d.Name == "controller" && d.Attr("type") == "pci" {
			label = fmt.Sprintf("controller %s %s", d.Attr("index"), d.Attr("model"))
		}

		all[label] = fmt.Sprintf("%02x:%02x.%x", d.At.Bus, d.At.Slot, d.At.Function)
	}

	const chipsets = "controller sata 0" // the simulation knows it where the domain has it
	if all[chipsets] == "00:1f.2" {
		delete(all, chipsets)
	}

	return all
}

// name returns the name of a device: its alias; libvirt gives one without an alias no other of its
// kind, but for controllers.
func name(alias, element, kind, index, model string) string {
	switch {
	case alias != "":
		return alias
	case element != "controller":
		return element
	case kind == "usb" && index == "1":
		return "controller usb 1 " + model
	}

	return fmt.Sprintf("controller %s %s", kind, index)
}
