package pastes

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"hook-sidecar/pkg/topology"
)

// RDMATopo prints rdma_topo dump of root (rdma-core, rdma_topo, cmd_dump): the configuration space
// of each function but for parts of the root complex. A NIC's VPD has a serial number.
func RDMATopo(m *Machine) string {
	type function struct {
		Path       string              `json:"realpath"`
		Config     string              `json:"config"`
		Group      *int                `json:"iommu_group"`
		Modalias   string              `json:"modalias"`
		Node       *int                `json:"numa_node"`
		VPD        string              `json:"vpd,omitempty"`
		Subsystems map[string][]string `json:"subsystems"`
	}

	left := []uint32{0x0600, 0x0601, 0x0807, 0x0880, 0x1101, 0x1300}
	names := map[topology.Address]string{}
	for i, nic := range m.NICs() {
		names[nic.Address] = nicName(i)
	}

	var all []function
	for _, d := range m.Functions {
		if slices.Contains(left, d.Class>>8) {
			continue
		}

		f := function{
			Path: "/sys/devices/" + d.Root.String(), Group: d.IOMMUGroup,
			Config: packed(m.config(d)), Subsystems: map[string][]string{},
			Modalias: fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X", d.Vendor, d.Device,
				0, 0, d.Class>>16, d.Class>>8&0xff, d.Class&0xff),
		}
		for _, bridge := range d.Bridges {
			f.Path += "/" + bridge.String()
		}
		f.Path += "/" + d.Address.String()

		if number, err := strconv.Atoi(node(d, "-1")); err == nil {
			f.Node = &number
		}

		if name := names[d.Address]; name != "" {
			f.Subsystems["infiniband"] = []string{name}
			f.VPD = packed([]byte("\x90\x08\x00SN\x05S1234\x78"))
		}
		all = append(all, f)
	}

	text, _ := json.MarshalIndent(all, "", "    ") // these can be marshalled
	return string(text) + "\n"
}

// packed returns data as rdma_topo writes them.
func packed(data []byte) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(data) // to memory
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}
