package cli

import (
	"fmt"
	"io/fs"
	"time"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/words"
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
		header = fmt.Sprintf("Host snapshot, taken %s from %s\nby %s: %s, %s, %s.\n\n",
			time.Now().UTC().Format(time.RFC3339), source, p.Version(),
			words.Counted(s.Nodes, "NUMA node"), words.Counted(s.Functions,
				"PCI function"), words.Counted(s.MDEVs, "mediated device"))
	}

	data, err := s.Format(header)
	if err != nil {
		return err
	}

	return p.Write(output, data)
}
