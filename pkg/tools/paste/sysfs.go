package paste

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// ReadSysfs reads the sysfs of a machine, such as that of the running guest. A snapshot lacks names,
// and configuration spaces.
func ReadSysfs(fsys fs.FS) (Machine, []reasons.Finding) {
	read, problems := host.Read(fsys, nil, host.All|host.LinkSpeeds)
	m := Machine{
		Host: *read, NUMA: read.Nodes, Sources: []Source{Snapshot}, Farthest: topology.NODE,
	}

	hasInterface := map[topology.Address]bool{}
	for _, d := range append(m.GPUs(), m.NICs()...) {
		dir := directoryOf(d)
		if names := namesIn(fsys, dir+"/infiniband"); len(names) > 0 {
			m.name(d.Address, names[0])
		}
		hasInterface[d.Address] = len(namesIn(fsys, dir+"/net")) > 0

		isLost := func(bar topology.BAR) bool { return bar.Unassigned && !bar.IO }
		switch {
		case isGone(firstBytes(fsys, dir+"/config")):
			m.fault(d.Address, NoAnswer)
		case slices.ContainsFunc(d.BARs, isLost):
			m.fault(d.Address, NoBAR)
		}
	}

	m.lacksDrivers(func(*topology.Function) bool { return true })
	m.lacksRDMA(hasInterface)
	return m.withTree(), problems
}

// directoryOf returns the directory of a function; for one under VMD's second root one that does not
// exist.
func directoryOf(d *topology.Function) string {
	at := append([]string{"devices", d.Root.String()},
		topology.Map(d.Bridges, topology.Address.String)...)
	return path.Join(append(at, d.Address.String())...)
}

// namesIn lists a directory of names that begin with no dot; nil where it does not exist.
func namesIn(fsys fs.FS, dir string) (names []string) {
	entries, _ := fs.ReadDir(fsys, dir)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}

	return names
}

// firstBytes reads the vendor and device of a configuration space; nil where it cannot be read.
func firstBytes(fsys fs.FS, name string) []byte {
	file, err := fsys.Open(name)
	if err != nil {
		return nil
	}

	defer file.Close()
	ids := make([]byte, 4)
	if _, err := io.ReadFull(file, ids); err != nil {
		return nil
	}

	return ids
}

// isGone reports whether a function does not answer: all of its registers read as ones.
func isGone(config []byte) bool {
	const all = "\xff\xff\xff\xff"
	return strings.HasPrefix(string(config), all)
}
