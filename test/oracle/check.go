package oracle

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"hook-sidecar/test/xmltree"
)

// Check defines a domain, after Prepare, and fails the test where libvirt
// refuses it or understands it otherwise than it is written, or where it is
// accepted though QEMU or the firmware would lose devices. It returns the
// readback, nil when the domain was refused.
func (l *Libvirt) Check(tb testing.TB, domain []byte) (readback []byte) {
	tb.Helper()
	readback, findings, err := l.Examine(domain)
	if err != nil && os.Getenv(RootVariable) != "" && strings.Contains(err.Error(), "No emulator found") {
		tb.Skipf("the libvirt of %s: %v", RootVariable, err)
	}
	if err != nil {
		tb.Errorf("libvirt refuses the domain: %v", err)
		return nil
	}
	for _, finding := range findings {
		tb.Errorf("libvirt accepts the domain, but: %s", finding)
	}
	return readback
}

// Examine is Check for those who want to see the findings. The error is
// libvirt's refusal.
func (l *Libvirt) Examine(domain []byte) (readback []byte, findings []string, err error) {
	prepared, _ := Prepare(domain)
	if readback, err = l.Define(prepared); err != nil {
		return nil, nil, err
	}
	readable, err := withMode(prepared)
	if err != nil {
		return nil, nil, err
	}
	var want, got libvirtxml.Domain
	if err := want.Unmarshal(string(readable)); err != nil {
		return nil, nil, fmt.Errorf("libvirtxml reads the domain: %w", err)
	}
	if err := got.Unmarshal(string(readback)); err != nil {
		return nil, nil, fmt.Errorf("libvirtxml reads the readback: %w", err)
	}
	in, err := newTopology(prepared)
	if err != nil {
		return nil, nil, err
	}
	out, err := newTopology(readback)
	if err != nil {
		return nil, nil, err
	}
	findings = slices.Concat(compareHostdevs(&want, &got), compareControllers(&want, &got),
		in.holes(), out.intruders(in), out.lostDevices())
	return readback, findings, nil
}

// compareHostdevs: every hostdev is still there, at the address that it had.
func compareHostdevs(want, got *libvirtxml.Domain) (findings []string) {
	found := map[string]string{}
	for _, h := range hostdevs(got) {
		found[hostdevID(h)] = guestAddress(h.Address)
	}
	for _, h := range hostdevs(want) {
		id := hostdevID(h)
		if id == "" {
			continue
		}
		place, present := found[id]
		switch planned := guestAddress(h.Address); {
		case !present:
			findings = append(findings, fmt.Sprintf("hostdev %s is not in the readback", id))
		case planned != "" && planned != place:
			findings = append(findings, fmt.Sprintf("hostdev %s reads back at %s, not at %s", id, place, planned))
		}
	}
	return findings
}

func hostdevs(d *libvirtxml.Domain) []libvirtxml.DomainHostdev {
	if d.Devices == nil {
		return nil
	}
	return d.Devices.Hostdevs
}

// hostdevID is the host address or UUID of what a hostdev passes through, ""
// for kinds other than PCI and mdev.
func hostdevID(h libvirtxml.DomainHostdev) string {
	switch {
	case h.SubsysPCI != nil && h.SubsysPCI.Source != nil:
		return pciAddress(h.SubsysPCI.Source.Address)
	case h.SubsysMDev != nil && h.SubsysMDev.Source != nil && h.SubsysMDev.Source.Address != nil:
		return strings.ToLower(h.SubsysMDev.Source.Address.UUID)
	}
	return ""
}

func guestAddress(a *libvirtxml.DomainAddress) string {
	if a == nil {
		return ""
	}
	return pciAddress(a.PCI)
}

func pciAddress(a *libvirtxml.DomainAddressPCI) string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", value(a.Domain), value(a.Bus), value(a.Slot), value(a.Function))
}

func value(n *uint) uint {
	if n == nil {
		return 0
	}
	return *n
}

// compareControllers: every PCI controller has the model, the address and the
// target that it was given.
func compareControllers(want, got *libvirtxml.Domain) (findings []string) {
	found := map[uint]libvirtxml.DomainController{}
	for _, c := range pciControllers(got) {
		found[value(c.Index)] = c
	}
	for _, c := range pciControllers(want) {
		if c.Index == nil {
			continue // libvirt numbers it
		}
		back, present := found[*c.Index]
		if !present {
			findings = append(findings, fmt.Sprintf("controller %d is not in the readback", *c.Index))
			continue
		}
		wanted, read := controllerFacts(c), controllerFacts(back)
		for _, name := range []string{"model", "address", "busNr", "node", "hotplug"} {
			if wanted[name] != "" && wanted[name] != read[name] {
				findings = append(findings, fmt.Sprintf("controller %d reads back with %s %q, not %q",
					*c.Index, name, read[name], wanted[name]))
			}
		}
	}
	return findings
}

func pciControllers(d *libvirtxml.Domain) []libvirtxml.DomainController {
	if d.Devices == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(d.Devices.Controllers), func(c libvirtxml.DomainController) bool {
		return c.Type != "pci"
	})
}

// controllerFacts are the values that a controller states; what it leaves open
// is "".
func controllerFacts(c libvirtxml.DomainController) map[string]string {
	facts := map[string]string{"model": c.Model, "address": guestAddress(c.Address)}
	if c.PCI == nil || c.PCI.Target == nil {
		return facts
	}
	target := c.PCI.Target
	facts["hotplug"] = target.Hotplug
	if target.BusNr != nil {
		facts["busNr"] = fmt.Sprint(*target.BusNr)
	}
	if target.NUMANode != nil {
		facts["node"] = fmt.Sprint(*target.NUMANode)
	}
	return facts
}

// parseTree reads a document whose well-formedness libvirt has seen to.
func parseTree(document []byte) (*xmltree.Node, error) {
	root, err := xmltree.Parse(document)
	if err != nil {
		return nil, err
	}
	if root.Find("devices") == nil {
		return nil, fmt.Errorf("domain has no <devices>")
	}
	return root, nil
}
