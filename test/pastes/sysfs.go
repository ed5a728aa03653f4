package pastes

import (
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// SnapshotText returns the machine as hook-sidecar snapshot prints it.
func SnapshotText(m *Machine) string {
	snapshot, _, err := host.TakeSnapshot(m.Sysfs)
	if err != nil {
		panic(err)
	}

	text, err := snapshot.Format("# A host.\n")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// WriteSysfs writes a /sys that lspci and lstopo read, and returns its directory: that of the
// description, with configuration spaces, CPUs and memory.
func (m *Machine) WriteSysfs(tb testing.TB) string {
	tb.Helper()
	files := m.Sysfs.Leaves()
	file := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	cpus := 0
	for _, n := range m.Nodes {
		for id := range n.CPUs.All() {
			cpus = max(cpus, id+1)
		}
	}

	for _, d := range m.Functions {
		dir := path.Join("devices", d.Root.String())
		for _, bridge := range d.Bridges {
			dir = path.Join(dir, bridge.String())
		}

		dir = path.Join(dir, d.Address.String())
		files[dir+"/config"] = &fstest.MapFile{Data: m.config(d)}
		file(dir+"/irq", "0")
		if files[dir+"/resource"] == nil {
			file(dir+"/resource", strings.Repeat("0x0 0x0 0x0\n", 12)+"0x0 0x0 0x0")
		}

		local := fmt.Sprintf("0-%d", cpus-1)
		if id, isKnown := d.Node.Node(); isKnown {
			i := slices.IndexFunc(m.Nodes, func(n topology.NUMANode) bool { return n.ID == id })
			local = m.Nodes[i].CPUs.String()
		}
		file(dir+"/local_cpus", kernelMask(local))
	}

	m.processors(file, cpus)
	return expect.HostDir(tb, files)
}

// kernelMask returns a list of CPUs as the kernel's mask.
func kernelMask(list string) string {
	ids, _ := topology.ParseIDs(list)
	return strings.ReplaceAll(mask(ids), "0x", "")
}

// config returns a configuration space (PCI Express 5.0, 7.5): ids, class, the buses under a
// bridge, and the link in a capability of PCI Express at 0x40; where the description has registers,
// all that root sees.
func (m *Machine) config(d topology.Function) []byte {
	const express = 0x40
	c := make([]byte, 256)
	if d.Details.ExtendedConfig {
		c = extended(d.Details)
		binary.LittleEndian.PutUint32(c[express+0x24:], uint32(atomics(d)))
		if blocksAtomics(d) {
			c[express+0x28] = 0x80
		}
	}

	binary.LittleEndian.PutUint16(c[0:], d.Vendor)
	binary.LittleEndian.PutUint16(c[2:], d.Device)
	c[6] = 0x10 // has capabilities
	c[9], c[10], c[11] = byte(d.Class), byte(d.Class>>8), byte(d.Class>>16)
	c[0x34], c[express], c[express+2] = express, 0x10, 0x02
	if d.IsBridge {
		low, high := m.buses(d)
		c[0x0e], c[0x18], c[0x19], c[0x1a] = 1, d.Address.Bus, low, high
		c[express+2] = 0x42 // of a root port
	}

	binary.LittleEndian.PutUint32(c[express+0xc:],
		uint32(generation(d.MaxLink))|uint32(width(d.MaxLink))<<4)
	return c
}

// extended returns a configuration space whose extended capabilities are one with a serial number,
// ACS and ATS (PCI Express 5.0, 7.7.8 and 10.5.1).
func extended(d *topology.Details) []byte {
	c := make([]byte, 4096)
	at := 0x100
	add := func(id uint32, low, high uint16) {
		binary.LittleEndian.PutUint32(c[at:], id|1<<16|uint32(at+0x10)<<20)
		binary.LittleEndian.PutUint16(c[at+4:], low)
		binary.LittleEndian.PutUint16(c[at+6:], high)
		at += 0x10
	}

	const serialNumber, acs, ats = 0x03, 0x0d, 0x0f
	add(serialNumber, 0xdef0, 0x9abc)
	if d.ACS != nil {
		add(acs, uint16(d.ACS.Capable), uint16(d.ACS.Control))
	}
	if d.ATS {
		add(ats, 0, 0)
	}

	return c // the last points to one of zeros, which ends the list
}

// processors writes the files of CPUs, each a core of its own, with a package per NUMA node.
func (m *Machine) processors(file func(name, text string), cpus int) {
	const node, cpu = "devices/system/node", "devices/system/cpu"
	all := fmt.Sprintf("0-%d", cpus-1)
	for _, name := range []string{"online", "possible", "present"} {
		file(cpu+"/"+name, all)
	}

	core := func(id, in int, beside string) {
		dir := fmt.Sprintf("%s/cpu%d/topology", cpu, id)
		file(dir+"/core_id", fmt.Sprint(id))
		file(dir+"/physical_package_id", fmt.Sprint(in))
		file(dir+"/core_cpus", kernelMask(fmt.Sprint(id)))
		file(dir+"/package_cpus", kernelMask(beside))
	}

	for i, n := range m.Nodes {
		dir := fmt.Sprintf("%s/node%d", node, n.ID)
		distances := topology.Map(m.Nodes, func(other topology.NUMANode) string {
			return map[bool]string{true: "10", false: "20"}[other.ID == n.ID]
		})
		file(dir+"/cpumap", kernelMask(n.CPUs.String()))
		file(dir+"/distance", strings.Join(distances, " "))
		file(dir+"/meminfo", fmt.Sprintf("Node %d MemTotal: 67108864 kB", n.ID))
		for id := range n.CPUs.All() {
			core(id, i, n.CPUs.String())
		}
	}

	if !slices.ContainsFunc(m.Nodes, func(n topology.NUMANode) bool { return n.CPUs.Contains(0) }) {
		core(0, len(m.Nodes), "0") // without which lstopo reads no CPUs
	}
}
