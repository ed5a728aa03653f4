package nccl_test

import (
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/pkg/keys/nccl"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// TestOrder: CPUs come in the order in which NCCL finds them without a file: that of the first GPU,
// then of the first NIC. On RCCL's topo_8p_ts1, whose first GPU is on node 1, NCCL's search took
// other channels with the file than on the host when they were in the order of their numbers.
func TestOrder(t *testing.T) {
	const gpu, nic = 0x030200, 0x020700
	var functions []nccl.Function
	for bus, at := range map[uint8]struct{ class, node int }{
		0x01: {nic, 3}, 0x02: {nic, 2}, 0x10: {gpu, 1}, 0x11: {nic, 1}, 0x20: {gpu, 0},
		0x21: {gpu, 1},
	} {
		d := topology.Function{Class: uint32(at.class), Vendor: 0x10de}
		functions = append(functions, nccl.Function{
			Address: topology.Address{Bus: bus}, Node: at.node, Device: &d,
		})
	}

	var got []string
	text := nccl.Of(functions).String()
	for _, match := range regexp.MustCompile(
		`numaid="(\d)"|busid="0000:(..)`).FindAllStringSubmatch(
		text, -1) {
		got = append(got, match[1]+match[2])
	}

	expect.Same(t, []string{"1", "10", "11", "21", "0", "20", "3", "01", "2", "02"}, got,
		"CPUs and the devices under each (-want +got)")
}

// TestInvented: switches that the guest does not have get addresses of their own, also more than one
// bus holds. A node that is not known is -1, as the kernel writes it.
func TestInvented(t *testing.T) {
	var functions []nccl.Function
	for n := range 40 {
		gpu := topology.Function{Class: 0x030200, Vendor: 0x10de}
		functions = append(functions, nccl.Function{
			Address: topology.Address{Bus: uint8(n + 1)}, Node: -1, Device: &gpu,
			Switches: []*topology.Node{{Kind: topology.UpstreamPort}},
		})
	}

	text := nccl.Of(functions).String()
	seen := map[string]bool{}
	for _, match := range regexp.MustCompile(`busid="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if seen[match[1]] {
			t.Errorf("%s appears twice", match[1])
		}
		seen[match[1]] = true
	}

	if len(seen) != 80 || !strings.Contains(text, `numaid="-1"`) {
		t.Errorf("%d addresses, want 80: %s", len(seen), text)
	}
}
