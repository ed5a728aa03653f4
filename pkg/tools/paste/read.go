package paste

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

// format is a format that Read recognises.
type format struct {
	name string          // in messages
	is   func(text) bool // whether the text has it
	read func(text) (Machine, error)
}

// formats lists the formats, those that say most of a machine first.
var formats = []format{
	{"rdma_topo dump", isRDMATopo, readRDMATopo},
	{"virsh nodedev-dumpxml", isNodeDevices, readNodeDevices},
	{"lstopo's XML", isLstopoXML, readLstopoXML},
	{"NCCL's topology file", isNCCLFile, readNCCLFile},
	{"lspci -vmm", isLspciRecords, readLspciRecords},
	{"lspci", isLspciList, readLspciList},
	{"lspci -t", isLspciTree, readLspciTree},
	{"lstopo's text", isLstopoText, readLstopoText},
	{"NCCL's log", isNCCLLog, readNCCLLog},
	{"nvidia-smi's error", isLostGPU, readLostGPUs},
	{"nvidia-smi -q", isNVIDIAList, readNVIDIAList},
	{"amd-smi", isAMDSMI, readAMDSMI},
	{"rocm-smi", isROCmSMI, readROCmSMI},
	{"ibdev2netdev or mst status", isNICNames, readNICNames},
	{"nvidia-smi topo", isMatrix, readMatrix}, // whose NICs have the names, and no addresses
}

// WhatToPaste lists what Read reads best, for hints.
const WhatToPaste = "nvidia-smi topo -mp and lspci -Dvmmnn, or lstopo --of xml, or hook-sidecar " +
	"snapshot"

// maxText limits a text that is not a snapshot. The longest real ones are logs.
const maxText = 16 << 20

// Read reads what a person pastes of a machine. An error says what the text is and what to paste
// instead, or where it is wrong. Problems are those of a snapshot.
func Read(data []byte) (Machine, []reasons.Finding, error) {
	if isSnapshot(data) {
		fsys, err := host.ParseSnapshot(data)
		if err != nil {
			return Machine{}, nil, fmt.Errorf("snapshot: %w", err)
		}

		m, problems := ReadSysfs(fsys)
		if len(m.Functions) == 0 {
			return m, problems, errors.New("snapshot: no PCI devices in it")
		}

		return m, problems, nil
	}

	if len(data) > maxText {
		return Machine{}, nil,
			fmt.Errorf("%s of text; the limit is %s: cut it to the part of one machine",
				words.BytesNeeded(uint64(len(data))), words.BytesThere(maxText))
	}

	m, err := readText(clean(data))
	return m, nil, err
}

// isSnapshot reports whether a text is a snapshot of /sys: txtar, with a name per file.
func isSnapshot(data []byte) bool {
	start := string(data[:min(len(data), 1<<16)])
	return strings.HasPrefix(start, "-- ") || strings.Contains(start, "\n-- ")
}

// readText reads each format of a text and joins what they say.
func readText(t text) (Machine, error) {
	// It may have elements of the names that lstopo's and NCCL's have: <topology>, <system>.
	start := xmlElement.FindStringSubmatch(t.all)
	if start != nil && (start[1] == "domain" || start[1] == "domainsnapshot") {
		return Machine{}, errors.New("a libvirt domain, which is the VM's configuration and not " +
			"what its guest shows: hook-sidecar explain --domain reads it")
	}

	var parts []Machine
	var failed []error
	for _, f := range formats {
		if !f.is(t) {
			continue
		}

		part, err := f.read(t)
		if err != nil {
			failed = append(failed, err)
			continue
		}

		parts = append(parts, part)
	}

	switch {
	case len(parts) == 0 && len(failed) > 0:
		return Machine{}, failed[0]
	case len(parts) == 0:
		return Machine{}, unknown(t)
	}

	m, err := join(parts)
	for _, err := range failed {
		m.note("a part was not read: %s", err)
	}

	return m, err
}

var (
	// xmlElement matches the first element of a text that begins as XML.
	xmlElement = lazyregexp.New(`^\s*(?:<[?!][^>]{0,1000}>\s*)*<([A-Za-z_:][^\s/>]*)`)

	// innerElement matches an element inside those of lstopo's and NCCL's files.
	innerElement = lazyregexp.New(
		`<(pci busid|cpu numaid|gpu dev|nvlink target|net name|object type)=`)
)

// unknown says why a text is none of the formats.
func unknown(t text) error {
	for _, tool := range otherTools {
		if slices.ContainsFunc(t.lines, tool.is) {
			return errors.New(tool.why)
		}
	}

	if first := innerElement.FindStringSubmatch(t.all); first != nil {
		name, _, _ := strings.Cut(first[1], " ")
		return fmt.Errorf("the beginning of the file is missing: it starts with <%s>", name)
	}

	if start := xmlElement.FindStringSubmatch(t.all); start != nil {
		return fmt.Errorf("<%s> is neither lstopo's <topology> nor NCCL's <system>",
			words.Abridge(start[1]))
	}

	return errors.New("nothing in it is a list, a tree or a table of PCI devices")
}

// otherTools are outputs that people paste in the place of those that can be read, and why not.
var otherTools = []struct {
	is  func(line string) bool
	why string
}{
	{func(l string) bool { return strings.HasPrefix(l, "GPU ") && strings.Contains(l, "(UUID: ") },
		"nvidia-smi -L, which has neither addresses nor paths: paste nvidia-smi topo -mp and " +
			"lspci -Dvmmnn"},
	{func(l string) bool {
		return strings.Contains(l, "NCCL INFO ") || strings.Contains(l, "NCCL WARN ")
	},
		"NCCL's log without its tree: run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH"},
	{func(l string) bool { return strings.Contains(l, "│") && strings.Contains(l, "L#") },
		"lstopo's drawing, which has no bridges: run lstopo --of console or lstopo --of xml"},
	{func(l string) bool {
		return strings.HasPrefix(l, "NUMA node") && strings.Contains(l, "CPU(s):")
	},
		"lscpu, which has no devices: paste " + WhatToPaste},
	{func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "GPU0 ") },
		"a table of GPUs with a column that nvidia-smi topo -m does not write: paste its output " +
			"as it is"},
}
