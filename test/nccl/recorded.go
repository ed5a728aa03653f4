package nccl

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/pastes"
)

// published begin the names of the machines of topology files that were published, in
// testdata/machines. That of AWS g5 has no NIC near a GPU and no links.
var published = []string{"rccl-", "oci-", "azure-", "aws-p4de"}

// RecordedCases returns the machines of published topology files, each with a VM that has all its
// GPUs and NICs. GPUs are NVIDIA's H100 whatever they were: only the tree counts.
func RecordedCases(tb testing.TB) (all []Case) {
	tb.Helper()
	for _, name := range pastes.Names(tb, "") {
		if slices.ContainsFunc(published, func(word string) bool {
			return strings.HasPrefix(name, word)
		}) {
			all = append(all, recordedCase(tb, name))
		}
	}

	return all
}

// gpu matches what a description says of a GPU, which follows its address.
var gpu = regexp.MustCompile(`gpu (class=\S+ )?ids=\S+`)

// recordedCase returns the VM of a machine, with a cell per node.
func recordedCase(tb testing.TB, name string) Case {
	tb.Helper()
	text := strings.ReplaceAll(pastes.Description(tb, name), "xgmi", "nvlink")
	const h100, h100PCIe = "gpu ids=10de:2330", "gpu ids=10de:2331"
	m := pastes.Parse(tb, gpu.ReplaceAllString(text, h100))
	if hardwareOf(m).NVLinks == 0 {
		m = pastes.Parse(tb, gpu.ReplaceAllString(text, h100PCIe))
	}

	c := Case{Name: name, Hardware: hardwareOf(m), Sysfs: m.Sysfs, Described: m}
	var err error
	c.Devices, err = matrix.Sysfs{FS: c.Sysfs}.Endpoints()
	expect.NoError(tb, err)
	c.NUMA = matrix.CellPerNode(m.Nodes)
	c.Domain = matrix.Domain(c.NUMA, c.Devices)
	return c
}

// hardwareOf returns what is known of CPU, NVLinks and NICs. Machines of which the links are not
// known have some.
func hardwareOf(m *pastes.Machine) Hardware {
	h := Hardware{CPU: intel, SM: 90, NVLinks: 12, Mbps: 200_000}
	if strings.HasPrefix(m.CPU, "AuthenticAMD") {
		h.CPU = genoa
	}

	if len(m.Links) > 0 && m.Links[0].Count == 0 {
		h.NVLinks = 0
	}

	if m.Mbps > 0 {
		h.Mbps = min(m.Mbps, 400_000)
	}

	return h
}
