package cli

import (
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
)

// WriteSnapshot writes a snapshot of a sysfs tree, and warns of omitted files. Without a
// header it gets one with its time, its source and the program.
func (p *Program) WriteSnapshot(output string, sysfs fs.FS, header, source string) error {
	s, problems, err := host.TakeSnapshot(sysfs)
	if err != nil {
		return Failed("a snapshot is taken of a sysfs directory, or of another snapshot", err)
	}
	for _, problem := range problems {
		p.Say("warning: left out of the snapshot: %s", problem.Text)
	}
	if header == "" {
		taken, err := p.now()
		if err != nil {
			return err
		}
		header = fmt.Sprintf("Host snapshot, taken %s from %s\nby %s: %s, %s, %s.\n\n", taken.UTC().Format(time.RFC3339), source, p.Version(),
			topology.Counted(s.Nodes, "NUMA node"), topology.Counted(s.Functions, "PCI function"), topology.Counted(s.MDEVs, "mediated device"))
	}
	data, err := s.Format(header)
	if err != nil {
		return err
	}
	return p.Write(output, data)
}

// now returns the current time, or that of SOURCE_DATE_EPOCH
// (reproducible-builds.org/specs/source-date-epoch).
func (p *Program) now() (time.Time, error) {
	text := p.Environ.Variable("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid SOURCE_DATE_EPOCH %q: must be a number of seconds", text)
	}
	return time.Unix(seconds, 0), nil
}
