package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// TestSysfs: the sysfs of a host shows its nodes and functions, with all that it is said to show.
func TestSysfs(t *testing.T) {
	files, err := filepath.Glob("../../testdata/hosts/*.txtar")
	expect.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		expect.NoError(t, err)
		fsys, err := host.ParseSnapshot(data)
		expect.NoError(t, err)
		was, _ := host.Read(fsys, nil, host.All|host.LinkSpeeds)
		made, err := host.Sysfs(was)
		expect.NoError(t, err)
		is, problems := host.Read(made, nil, host.All|host.LinkSpeeds)
		if len(problems) > 0 || len(files) < 8 {
			t.Fatalf("%s: problems %v, %d files", file, problems, len(files))
		}

		cpus := func(n topology.NUMANode) string { return fmt.Sprint(n.ID, n.CPUs) }
		expect.Same(t, topology.Map(was.Nodes, cpus), topology.Map(is.Nodes, cpus),
			"%s: nodes (-host +sysfs)", file)
		expect.Same(t, was.CPU, is.CPU, "%s: CPU (-host +sysfs)", file)
		expect.Same(t, shown(was), shown(is), "%s: functions (-host +sysfs)", file)
	}
}

// shown returns a line per function, with what the comment of host.Sysfs says.
func shown(h *topology.Host) []string {
	return topology.Map(h.Functions, func(d topology.Function) string {
		link := "unknown"
		if d.MaxLink != nil {
			link = d.MaxLink.String()
		}

		group := "no group"
		if d.IOMMUGroup != nil {
			group = fmt.Sprint("group ", *d.IOMMUGroup)
		}

		return fmt.Sprintf("%s %06x %s node %s, %s %v, %q, %s, %s, %v", d.Address, d.Class, d.IDs(),
			d.Node, d.Root, d.Bridges, d.Driver, link, group, d.BARs)
	})
}

// TestSysfsWithoutRoot: a function that is nowhere cannot be shown.
func TestSysfsWithoutRoot(t *testing.T) {
	_, err := host.Sysfs(&topology.Host{Functions: []topology.Function{{}}})
	if err == nil || err.Error() != "make sysfs: 0000:00:00.0 has no PCIe root" {
		t.Errorf("error %v", err)
	}
}
