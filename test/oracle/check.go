package oracle

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/tree"
)

// Check defines a domain without what this libvirt is known to refuse. It fails the test where
// libvirt refuses the domain or understands it otherwise than it is written, and where QEMU or
// the firmware would lose devices of a domain that libvirt accepts. It returns the readback, nil
// when the domain was refused.
func (l *Libvirt) Check(tb testing.TB, domain []byte) (readback []byte) {
	tb.Helper()
	if examined := l.CheckChanged(tb, domain, nil); examined != nil {
		return examined.Domain
	}

	return nil
}

// CheckChanged does what Check does, but for findings that libvirt has of the domain without the
// hook, too. It returns nil when the domain was refused.
func (l *Libvirt) CheckChanged(tb testing.TB, domain, withoutHook []byte) *Examined {
	tb.Helper()
	examined, err := l.Examine(domain)
	if err != nil {
		skipWithoutEmulator(tb, err)
		tb.Errorf("libvirt refuses the domain: %v", err)
		return nil
	}

	var known []string
	if len(examined.Findings) > 0 && withoutHook != nil {
		if before, err := l.Examine(withoutHook); err == nil {
			known = before.Findings
		}
	}

	for _, finding := range examined.Findings {
		if !slices.Contains(known, finding) {
			tb.Errorf("libvirt accepts the domain, but: %s", finding)
		}
	}

	return examined
}

// skipWithoutEmulator skips a test for whose architecture another Debian has no
// QEMU.
func skipWithoutEmulator(tb testing.TB, err error) {
	tb.Helper()
	if os.Getenv(RootVariable) != "" && strings.Contains(err.Error(), "No emulator found") {
		tb.Skipf("the libvirt of %s: %v", RootVariable, err)
	}
}

// Examined holds a domain as libvirt reads it back, and what is wrong with it.
type Examined struct {
	Domain   []byte     // as `dumpxml --inactive` prints it
	Tree     *tree.Tree // of Domain
	Findings []string   // what Check reports
}

// Examine checks as Check does, and returns the findings. The error is libvirt's
// refusal.
func (l *Libvirt) Examine(domain []byte) (*Examined, error) {
	prepared, _ := prepare(domain, rulesOf(l.version))
	readback, err := l.Define(prepared)
	if err != nil {
		return nil, err
	}

	want, err := tree.Read(prepared)
	if err != nil {
		return nil, err
	}

	got, err := tree.Read(readback)
	if err != nil {
		return nil, err
	}

	return &Examined{readback, got, slices.Concat(hostdevs(want, got), controllers(want, got),
		added(want, got), faults(want, got))}, nil
}

// hostdevs compares where hostdevs are: each is still there, at its address.
func hostdevs(want, got *tree.Tree) (findings []string) {
	read := got.Hostdevs
	for id, planned := range want.Hostdevs {
		device, exists := read[id]
		switch {
		case !exists:
			findings = append(findings, fmt.Sprintf("hostdev %s is not in the readback", id))
		case planned.At != nil && (device.At == nil || *planned.At != *device.At):
			findings = append(findings,
				fmt.Sprintf("hostdev %s reads back at %v, not at %s", id, device.At, planned.At))
		}
	}

	return findings
}

// controllers compares PCI controllers: each has the model, the address and the
// target that it was given.
func controllers(want, got *tree.Tree) (findings []string) {
	for _, index := range slices.Sorted(maps.Keys(want.Controllers)) {
		given, read := want.Controllers[index], got.Controllers[index]

		// What is not given is libvirt's choice.
		if given.Model == "" {
			read.Model = ""
		}

		if given.At == nil {
			read.At = nil
		}

		if given.BusNr == tree.Unknown {
			read.BusNr = tree.Unknown
		}

		if given.Cell == tree.Unknown {
			read.Cell = tree.Unknown
		}

		if given.Hotplug == "" {
			read.Hotplug = ""
		}

		if !reflect.DeepEqual(given, read) {
			findings = append(findings,
				fmt.Sprintf("controller %d reads back as %+v, not as %+v", index, read, given))
		}
	}

	return findings
}

// added lists what libvirt added under an expander bus: it fills free ports
// wherever they are.
func added(want, got *tree.Tree) (findings []string) {
	planned := map[tree.Address]bool{}
	for _, device := range want.Devices {
		if device.At != nil {
			planned[*device.At] = true
		}
	}

	for _, device := range got.Devices {
		if bus := got.RootBus(device.At); bus != 0 && !planned[*device.At] {
			findings = append(findings,
				fmt.Sprintf("%s is placed under expander bus %d", device.Name, bus))
		}
	}

	return findings
}

// faults returns what libvirt accepts and QEMU refuses at start, or the firmware does not number.
func faults(want, got *tree.Tree) []string {
	var findings []string
	for _, index := range want.Holes() {
		findings = append(findings,
			fmt.Sprintf("no controller has index %d, and a higher one is in use", index))
	}

	for _, c := range got.BeforeParents() {
		findings = append(findings,
			fmt.Sprintf("controller %d is on bus %d: QEMU makes it before its parent", c.Index,
				c.At.Bus))
	}

	for _, slot := range got.Hidden() {
		findings = append(findings,
			fmt.Sprintf("no device has function 0 of slot %s: the other functions are invisible "+
				"in the guest", slot))
	}

	return append(findings, got.BusShortages()...)
}
