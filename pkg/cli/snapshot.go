package cli

import (
	"fmt"
	"io/fs"
	"time"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
)

// TakeSnapshot takes a snapshot of a sysfs tree, and warns of omitted files.
func (p *Program) TakeSnapshot(sysfs fs.FS) (*host.Snapshot, error) {
	s, problems, err := host.TakeSnapshot(sysfs)
	for _, problem := range problems {
		p.Say("warning: left out of the snapshot: %s: %s", problem.Source, problem.Text)
	}
	return s, err
}

// SnapshotComment returns the header of a snapshot: its time, its source and the program.
func SnapshotComment(s *host.Snapshot, taken time.Time, source, program string) string {
	return fmt.Sprintf("Host snapshot, taken %s from %s\nby %s: %s, %s, %s.\n\n", taken.UTC().Format(time.RFC3339), source, program,
		topology.Counted(s.Nodes, "NUMA node"), topology.Counted(s.Functions, "PCI function"), topology.Counted(s.MDEVs, "mediated device"))
}
