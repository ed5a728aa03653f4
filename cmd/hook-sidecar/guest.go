package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"hook-sidecar/pkg/explain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/report"
)

// compareWithGuest prints which devices the guest shows as the report has them,
// and ends with exitChanged if any differs.
func (a *app) compareWithGuest(r report.Report, flags explainFlags) error {
	data, err := a.readInput(flags.guest)
	if err != nil {
		return err
	}
	guest, problems, err := host.ReadGuest(data)
	if err == nil && isHost(r, guest) {
		err = errors.New("a snapshot of the host and not of the guest: it has every device at its host address")
	}
	if err != nil {
		return failed("run lspci -Dvmmnn or hook-sidecar snapshot in the guest", fmt.Errorf("%s: %w", flags.guest, err))
	}
	for _, p := range problems {
		a.say("warning: %s: %s: %s", p.Code, p.Source, p.Text)
	}
	c := report.CompareGuest(r, guest)
	var b bytes.Buffer
	if err := explain.WriteComparison(&b, c, flags.format, a.style(flags.output)); err != nil {
		return err
	}
	if err := a.write(flags.output, b.Bytes()); err != nil {
		return err
	}
	if len(c.Devices) > 0 && c.Count(report.NotCompared) == len(c.Devices) {
		return failed("pass the domain as libvirt has it: virsh dumpxml", errors.New("no device was compared: the domain has no addresses yet"))
	}
	return changeError(c.Count(report.Differs) > 0)
}

// isHost reports whether a guest shows every PCI device where the host does and under
// the same bridges, and not where it is planned: then it is the host.
func isHost(r report.Report, guest host.Guest) bool {
	isThere := func(d report.Device) bool {
		a, isPCI := d.ID.PCI()
		found := guest.Device(a)
		return isPCI && found != nil && d.PCIeRoot != nil && found.Root == *d.PCIeRoot && slices.Equal(found.Bridges, d.HostPath) &&
			(d.Predicted == nil || *d.Predicted != a)
	}
	return guest.Paths && len(r.Devices) > 0 && !slices.ContainsFunc(r.Devices, func(d report.Device) bool { return !isThere(d) })
}
