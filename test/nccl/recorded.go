package nccl

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/recorded"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
)

// classless is the topology file of testdata/corpus without classes, in which nothing is known as a
// GPU or a NIC.
const classless = "aws-aws-ofi-nccl-g5.48xl-topo"

// leftOut are the topology files with nearly the tree of another one.
var leftOut = strings.Fields(`
	ROCm-rccl-topo_4p1h_1 ROCm-rccl-topo_4p3l_n2_1 ROCm-rccl-topo_4p3l_n4 ROCm-rccl-topo_8p1h_n1
	ROCm-rccl-topo_8p6l ROCm-rccl-topo_8p6l_2nic ROCm-rccl-topo_8p6l_4nic ROCm-rccl-topo_8p6l_5nic
	ROCm-rccl-topo_8p_90a ROCm-rccl-topo_8p_rome ROCm-rccl-topo_8p_rome_4n_2
	ROCm-rccl-topo_8p_rome_4nics ROCm-rccl-topo_8p_rome_n2 ROCm-rccl-topo_8p_rome_n2_2
	ROCm-rccl-topo_8p_ts1_1 ROCm-rccl-topo_8p_ts1_n4_1 ROCm-rccl-topo_8p_ts1_n4_2
	ROCm-rccl-topo_collnet_n1 ROCm-rccl-topo_collnet_n4
	oci-H100-topology-kubernetes`)

// RecordedCases returns the machines of topology files that were published, each with a VM that has
// all its GPUs and NICs. GPUs are NVIDIA's H100 whatever they were: only the tree counts.
func RecordedCases(tb testing.TB) []Case {
	tb.Helper()
	return slices.DeleteFunc(AllRecordedCases(tb), func(c Case) bool {
		return slices.Contains(leftOut, c.Name)
	})
}

// AllRecordedCases returns them without leaving any out but the file without classes.
func AllRecordedCases(tb testing.TB) []Case {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(testdata, "corpus", "nccl", "*.xml"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no topology files: %v", err)
	}

	var all []Case
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".xml")
		if name != classless {
			all = append(all, recordedCase(tb, name, expect.File(tb, file)))
		}
	}

	return all
}

// recordedCase returns the VM of a topology file, with a cell per node.
func recordedCase(tb testing.TB, name string, file []byte) Case {
	tb.Helper()
	record, _, err := paste.Read(file)
	expect.NoError(tb, err)
	c := Case{Name: name, Hardware: hardwareOf(file)}
	for i := range record.Functions {
		if d := &record.Functions[i]; d.IsGPU() {
			d.Vendor, d.Device = 0x10de, 0x2330
			if c.Hardware.NVLinks == 0 {
				d.Device = 0x2331
			}
		}
	}

	made, err := recorded.New(&record)
	expect.NoError(tb, err)
	c.Sysfs, err = host.Sysfs(&made.Host)
	expect.NoError(tb, err)
	c.Devices, err = matrix.Sysfs{FS: c.Sysfs}.Endpoints()
	expect.NoError(tb, err)
	for _, node := range made.Nodes {
		c.NUMA = append(c.NUMA, []int{int(node.ID)})
	}

	c.Domain = matrix.Domain(c.NUMA, c.Devices)
	return c
}

// netSpeed matches the Mbit/s of a NIC.
var netSpeed = regexp.MustCompile(`<net [^>]*speed="([0-9]+)"`)

// hardwareOf returns what a file says of CPU, NVLinks and NICs. Files without GPUs' links are of
// machines that have them.
func hardwareOf(file []byte) Hardware {
	h := Hardware{CPU: intel, SM: 90, NVLinks: 12}
	if bytes.Contains(file, []byte("AuthenticAMD")) {
		h.CPU = genoa
	}

	hasLinks := bytes.Contains(file, []byte("<nvlink")) || bytes.Contains(file, []byte("<xgmi"))
	if bytes.Contains(file, []byte("<gpu")) && !hasLinks {
		h.NVLinks = 0
	}

	for _, speed := range netSpeed.FindAllSubmatch(file, -1) {
		mbps, _ := strconv.Atoi(string(speed[1]))
		h.Mbps = max(h.Mbps, min(mbps, 400_000))
	}

	if h.Mbps == 0 {
		h.Mbps = 200_000
	}

	return h
}
