package paste

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words/lazyregexp"
)

// nvidiaBusID matches NVIDIA's form of an address, whose domain has eight digits.
var nvidiaBusID = lazyregexp.New(`\b([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\b`)

func isNVIDIAList(t text) bool {
	return anyLine(t, func(line string) bool { return busIDIn(line) != "" })
}

// lostGPU matches what nvidia-smi prints of a GPU that does not answer, and the driver in the kernel's
// log (open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osapi.c).
var lostGPU = lazyregexp.New(`(?:device handle for GPU ?[0-9]*:? ?|NVRM: GPU )(` + longBusID +
	`): .*(?:Unknown Error|GPU is lost|has fallen off the bus)`)

func isLostGPU(t text) bool { return anyLine(t, lostGPU.MatchString) }

// readLostGPUs reads which GPUs nvidia-smi, or the driver in the kernel's log, says it lost.
func readLostGPUs(t text) (Machine, error) {
	m := Machine{Sources: []Source{NVIDIAList}}
	for _, line := range t.lines {
		found := lostGPU.FindStringSubmatch(line)
		if found == nil {
			continue
		}

		a, err := topology.ParseAddress(found[1])
		if err != nil {
			return Machine{}, err
		}

		if m.Faults[a] == "" {
			m.lacksNode(a)
			m.fault(a, NoAnswer)
			m.Functions = append(m.Functions, topology.Function{
				Address: a, Class: topology.Class3D, Vendor: topology.VendorNVIDIA,
			})
		}
	}

	return m.sorted()
}

// busIDIn returns the address in a line of nvidia-smi; "" for none.
func busIDIn(line string) string {
	if strings.Count(line, ":") < 2 || strings.Contains(line, "NCCL ") || len(line) > 400 {
		return ""
	}
	return nvidiaBusID.FindString(line)
}

// readNVIDIAList reads what nvidia-smi says of addresses: its table, -q, and
// --query-gpu=pci.bus_id. The GPUs are in its order.
func readNVIDIAList(t text) (Machine, error) {
	m := Machine{Sources: []Source{NVIDIAList}}
	current, section := -1, ""
	for _, line := range t.lines {
		if id := busIDIn(line); id != "" {
			a, err := topology.ParseAddress(id)
			if err != nil {
				return Machine{}, err
			}

			current = slices.IndexFunc(m.Functions, func(d topology.Function) bool {
				return d.Address == a
			})

			if current < 0 {
				current = len(m.Functions)
				m.name(a, fmt.Sprintf("GPU%d", current))
				m.lacksNode(a)
				m.Functions = append(m.Functions, topology.Function{
					Address: a, Class: topology.Class3D, Vendor: topology.VendorNVIDIA,
				})
			}
		}

		if len(m.Functions) > maxDevices {
			return Machine{}, errTooMany
		}

		// Lines are about the GPU whose address came last.
		tag, value, _ := strings.Cut(line, ":")
		if tag, value = strings.TrimSpace(tag), strings.TrimSpace(value); current >= 0 {
			section = nvidiaDetail(tag, value, section, &m.Functions[current])
			if kind := nvidiaIdentities[tag]; kind != "" {
				m.identify(m.Functions[current].Address, kind, value)
			}
		}
	}

	return m.sorted()
}

// nvidiaDetail reads a line of nvidia-smi -q about a GPU, and returns the section that it is in.
func nvidiaDetail(tag, value, section string, d *topology.Function) string {
	switch {
	case tag == "Device Id" && len(value) == len("0x233010DE"):
		d.Device = lspciID(strings.ToLower(value[2:6]))

	// Headings have no value. What Max means in a later line is told by the last of them.
	case tag == "PCIe Generation", tag == "Link Width", tag == "Link Widths":
		return tag
	case section == "PCIe Generation" && (tag == "Max" || tag == "Device Max"):
		if generation, err := strconv.Atoi(value); err == nil && generation > 0 &&
			generation < len(generations) {
			d.MaxLink = &topology.Link{Speed: generations[generation]}
		}

	case strings.HasPrefix(section, "Link Width") && tag == "Max" && d.MaxLink != nil:
		d.MaxLink.Width, _ = strconv.Atoi(strings.TrimSuffix(value, "x"))
	}

	return section
}

// nvidiaIdentities are the lines of nvidia-smi -q that name a GPU on the host and in a guest alike.
var nvidiaIdentities = map[string]string{
	"GPU UUID": gpuUUID, "Serial Number": serialNumber, "Module ID": moduleID, "Module Id": moduleID,
}

// generations are the GT/s of PCI Express, by generation.
var generations = []float64{0, 2.5, 5, 8, 16, 32, 64}
