package paste

import (
	"fmt"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// isLspciRecords reports whether a text has records of lspci -vmm: lines "Tag:\tvalue", separated
// by empty lines (pciutils lspci.8, "Verbose format (-vmm)").
func isLspciRecords(t text) bool { return strings.Contains(t.all, "Slot:") && anyLine(t, isSlot) }

func anyLine(t text, is func(string) bool) bool {
	for _, line := range t.lines {
		if is(line) {
			return true
		}
	}
	return false
}

func isSlot(line string) bool {
	rest, found := strings.CutPrefix(strings.TrimLeft(line, " \t"), "Slot:")
	return found && !strings.HasPrefix(rest, ":") && strings.TrimSpace(rest) != ""
}

// readLspciRecords reads lspci -Dvmm. With -n or -nn it has ids, else names.
func readLspciRecords(t text) (Machine, error) {
	m := Machine{Sources: []Source{Lspci}}
	records := lspciRecords(t.lines)
	whole := map[topology.Address]bool{} // the text is not cut before its driver
	for i, record := range records {
		d, err := lspciDevice(record)
		if err != nil {
			return Machine{}, fmt.Errorf("device %d: %w", len(m.Functions)+1, err)
		}

		m.Functions = append(m.Functions, d)
		whole[d.Address] = i < len(records)-1 || record["Module"] != ""
		if record["Rev"] == "ff" {
			m.fault(d.Address, NoAnswer)
		}
	}

	m.lacksDrivers(func(d *topology.Function) bool { return whole[d.Address] })

	if m.isOnRootBus() {
		m.placeOnRootBus()
	}

	m, err := m.sorted()
	if m.Farthest != topology.Self {
		m = m.withTree()
	}

	return m, err
}

// lspciRecords returns the tags of each record, which begins with its slot. The first line of a tag
// counts: after the last record may be anything. There are at most as many as a machine may have,
// and one.
func lspciRecords(lines []string) (records []map[string]string) {
	for _, line := range lines {
		if isSlot(line) {
			if len(records) > maxDevices {
				return records
			}
			records = append(records, map[string]string{})
		}

		tag, value, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found || len(records) == 0 {
			continue
		}

		if record := records[len(records)-1]; record[tag] == "" {
			record[tag] = strings.TrimSpace(value)
		}
	}

	return records
}

// lspciDevice returns the function of a record.
func lspciDevice(fields map[string]string) (d topology.Function, err error) {
	if d.Address, err = lspciAddress(fields["Slot"]); err != nil {
		return d, err
	}

	d.Class = lspciClass(fields["Class"])
	d.Vendor, d.Device = lspciID(fields["Vendor"]), lspciID(fields["Device"])
	if d.Vendor == 0 {
		d.Vendor, d.Device = vendorOf(fields["Vendor"]), deviceOf(fields["Device"])
	}

	d.IsBridge = topology.IsBridgeClass(d.Class)
	d.Driver, d.IOMMUGroup = fields["Driver"], groupNumber(fields["IOMMUGroup"])
	if node := fields["NUMANode"]; node != "" {
		d.Node, err = onNode(node)
	}

	return d, err
}

// lspciAddress reads an address, which without -D lacks the domain.
func lspciAddress(slot string) (topology.Address, error) {
	if strings.Count(slot, ":") == 1 {
		slot = "0000:" + slot
	}
	return topology.ParseAddress(slot)
}

// lspciID reads "10de" as -n prints it, or "NVIDIA Corporation [10de]" of -nn; 0 for a name alone.
func lspciID(value string) uint16 {
	id := strings.TrimSuffix(value[strings.LastIndexByte(value, '[')+1:], "]")
	n, err := strconv.ParseUint(id, 16, 16)
	if err != nil || len(id) != 4 {
		return 0
	}

	return uint16(n)
}

// lspciClass reads "0302", "3D controller [0302]", or a name alone (pci.ids, "List of known device
// classes").
func lspciClass(value string) uint32 {
	if id := lspciID(value); id != 0 {
		return uint32(id) << 8
	}
	return classNames[strings.TrimSpace(value)]
}

// classNames are the names of the classes that count.
var classNames = map[string]uint32{
	"VGA compatible controller":       0x030000,
	"XGA compatible controller":       0x030100,
	"3D controller":                   0x030200,
	"Display controller":              0x038000,
	"Processing accelerators":         0x120000,
	"Ethernet controller":             0x020000,
	"Infiniband controller":           0x020700,
	"InfiniBand controller":           0x020700,
	"Network controller":              0x028000,
	"Fabric controller":               0x020800,
	"PCI bridge":                      0x060400,
	"Host bridge":                     0x060000,
	"Bridge":                          0x068000,
	"ISA bridge":                      0x060100,
	"Audio device":                    0x040300,
	"Non-Volatile memory controller":  0x010800,
	"SCSI storage controller":         0x010000,
	"SATA controller":                 0x010600,
	"USB controller":                  0x0c0300,
	"SMBus":                           0x0c0500,
	"Serial controller":               0x070000,
	"Communication controller":        0x078000,
	"System peripheral":               0x088000,
	"Mass storage controller":         0x018000,
	"Serial bus controller":           0x0c8000,
	"Signal processing controller":    0x118000,
	"RAM memory":                      0x050000,
	"Co-processor":                    0x0b4000,
	"Encryption controller":           0x108000,
	"IOMMU":                           0x080600,
	"PIC":                             0x080000,
	"Multimedia controller":           0x048000,
	"Performance counters":            0x110100,
	"Non-Essential Instrumentation":   0x130000,
	"Serial Attached SCSI controller": 0x010700,
	"RAID bus controller":             0x010400,
}

// vendorNames are the vendors of GPUs, NICs and emulated devices, by what pci.ids calls them first.
var vendorNames = []struct {
	name string
	id   uint16
}{
	{"NVIDIA", topology.VendorNVIDIA},
	{"Mellanox", topology.VendorMellanox},
	{"Advanced Micro Devices", topology.VendorAMDGPU},
	{"Red Hat, Inc. Virtio", topology.VendorVirtio},
	{"Red Hat, Inc. QEMU", topology.VendorRedHat},
	{"Red Hat", topology.VendorRedHat},
	{"Broadcom", topology.VendorBroadcom},
	{"Amazon", topology.VendorAmazon},
	{"Intel", topology.VendorIntel},
	{"Habana", topology.VendorHabana},
	{"ASPEED", topology.VendorASPEED},
	{"Matrox", topology.VendorMatrox},
	{"Cirrus", topology.VendorCirrus},
	{"Microsoft", topology.VendorHyperV},
	{"VMware", topology.VendorVMware},
	{"Realtek", topology.VendorRealtek},
	{"Virtio", topology.VendorVirtio},
}

// vendorOf returns the id of a vendor's name; 0 for one that is not known.
func vendorOf(name string) uint16 {
	for _, v := range vendorNames {
		if strings.HasPrefix(name, v.name) {
			return v.id
		}
	}
	return 0
}

// deviceOf returns the device of a name where the vendor does not tell whether NCCL uses it: pci.ids
// has ENA, which does Ethernet alone, beside EFA. It returns 0 for any other.
func deviceOf(name string) uint16 {
	if strings.Contains(name, "Elastic Network Adapter") {
		return topology.DeviceENA
	}
	return 0
}
