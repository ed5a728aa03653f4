package cells_test

import (
	"strconv"
	"testing"
	"time"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement/cells"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// manyCells returns a domain with cells of one vCPU each and vCPUs that are pinned to the CPUs of
// eight nodes in turn. Nobody writes thousands of them, but a container of the pod can send them.
func manyCells(cellCount, pinCount int) (*domain.Domain, *topology.Host) {
	d, host := &domain.Domain{}, &topology.Host{}
	for n := range cellCount {
		d.Cells = append(d.Cells, domain.Cell{ID: topology.CellID(n), CPUs: strconv.Itoa(n)})
	}

	for n := range pinCount {
		d.Pins = append(d.Pins, domain.VCPUPin{VCPU: n, CPUSet: strconv.Itoa(n % 8)})
	}

	for n := range 8 {
		cpus, _ := topology.ParseIDs(strconv.Itoa(n))
		host.Nodes = append(host.Nodes, topology.NUMANode{ID: topology.NodeID(n), CPUs: cpus})
	}

	return d, host
}

// TestReadManyCells: the time is that of cells plus pins and not of cells times pins, which
// took 2.2 s; now it is 20 ms.
func TestReadManyCells(t *testing.T) {
	d, host := manyCells(9000, 4000)

	// pinned to node 0: 0, 8 and 24; to node 7: 15, 23, 31 and 3999
	d.Cells[0].CPUs = "0,8-31,^16,3999"
	start := time.Now()
	m, warnings := cells.Read(d, host)
	if took := time.Since(start); took > time.Second {
		t.Errorf("Read took %v", took)
	}

	cell, reason := m.Of(7)
	if len(warnings) > 0 || cell == nil || *cell != 0 || reason != reasons.VCPUPin {
		t.Errorf("node 7 is cell %v (%s), want 0 (%s); warnings %v", cell, reason, reasons.VCPUPin,
			warnings)
	}
}

func BenchmarkRead(b *testing.B) {
	d, host := manyCells(9000, 4000)
	for b.Loop() {
		m, _ := cells.Read(d, host)
		m.Of(0)
	}
}
