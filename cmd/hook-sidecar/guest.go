package main

import (
	"bytes"
	"errors"
	"fmt"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/report"
)

// compareWithGuest prints which devices the guest shows as the report has them,
// and ends with exitChanged if any differs.
func (a *app) compareWithGuest(r report.Report, flags explainFlags) error {
	data, err := a.readInput(flags.guest)
	if err != nil {
		return err
	}
	guest, problems, err := env.ReadGuest(data)
	if err != nil {
		return failed("run lspci -Dvmmnn or hook-sidecar snapshot in the guest", fmt.Errorf("%s: %w", flags.guest, err))
	}
	for _, p := range problems {
		a.say("warning: %s: %s: %s", p.Code, p.Source, p.Text)
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
		return failed("pass the domain as libvirt has it: virsh dumpxml", errors.New("no device was compared: the domain has no addresses yet"))
	}
	return changeError(c.Count(report.Differs) > 0)
}
