package main

import (
	"bytes"
	"errors"
	"fmt"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/report"
)

// compareWithGuest prints whether the guest sees the devices as the report has
// them, and ends with exitChanged where it does not.
func (a *app) compareWithGuest(r report.Report, flags explainFlags) error {
	data, err := a.readInput(flags.guest)
	if err != nil {
		return err
	}
	guest, problems, err := env.ReadGuest(data)
	if err != nil {
		return failure{exitFailed, fmt.Errorf("%s: %w", flags.guest, err), "take it in the guest: lspci -Dvmmnn, or hook-sidecar snapshot"}
	}
	for _, p := range problems {
		fmt.Fprintf(a.err, "hook-sidecar: warning: %s: %s: %s\n", p.Code, p.Source, p.Text)
	}
	c := report.CompareGuest(r, guest)
	var b bytes.Buffer
	if flags.format == formatJSON {
		err = encodeJSON(&b, c)
	} else {
		err = c.WriteText(&b, a.style(flags.output))
	}
	if err != nil {
		return err
	}
	if err := a.write(flags.output, b.Bytes()); err != nil {
		return err
	}
	if len(c.Devices) > 0 && c.Count(report.NotCompared) == len(c.Devices) {
		return failure{exitFailed, errors.New("no device was compared: the domain has no addresses yet"), "give the domain as libvirt has it: virsh dumpxml"}
	}
	return changeError(c.Count(report.Differs) > 0)
}
