package matrix

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/test/tree"
)

// GuestNUMA are the host nodes that the memory of each guest cell is on.
type GuestNUMA [][]int

// CellOf is the guest cell that alone has memory on a host node, or
// tree.Unknown.
func (g GuestNUMA) CellOf(node int) int {
	for cell, nodes := range g {
		if slices.Contains(nodes, node) {
			return cell
		}
	}
	return tree.Unknown
}

// Domain is a domain as virt-launcher passes it to a hook: a disk and a NIC
// without an address, and hostdevs in the given order. Without cells the guest
// has no NUMA.
func Domain(numa GuestNUMA, devices []string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b,
		"<domain type=\"kvm\">\n\t<name>matrix</name>\n\t<memory unit=\"MiB\">%d</memory>\n", 4096*max(1, len(numa)))
	fmt.Fprintf(&b, "\t<vcpu placement=\"static\">%d</vcpu>\n", 2*max(1, len(numa)))

	if len(numa) > 0 {
		fmt.Fprintf(&b, "\t<numatune>\n\t\t<memory mode=\"strict\" nodeset=\"%s\"></memory>\n",
			list(slices.Concat(numa...)))
		for cell, nodes := range numa {
			fmt.Fprintf(&b,
				"\t\t<memnode cellid=\"%d\" mode=\"strict\" nodeset=\"%s\"></memnode>\n", cell, list(nodes))
		}

		fmt.Fprintf(&b, "\t</numatune>\n")
	}

	b.WriteString("\t<os>\n\t\t<type arch=\"x86_64\" machine=\"q35\">hvm</type>\n\t</os>\n\t<features>\n\t\t<acpi></acpi>\n\t</features>\n")

	if len(numa) > 0 {
		b.WriteString("\t<cpu>\n\t\t<numa>\n")
		for cell := range numa {
			fmt.Fprintf(&b,
				"\t\t\t<cell id=\"%d\" cpus=\"%d-%d\" memory=\"4194304\" unit=\"KiB\"></cell>\n", cell, 2*cell, 2*cell+1)
		}

		b.WriteString("\t\t</numa>\n\t</cpu>\n")
	}

	b.WriteString("\t<devices>\n")
	b.WriteString("\t\t<interface type=\"ethernet\">\n\t\t\t<model type=\"virtio\"></model>\n\t\t</interface>\n")
	for i, id := range devices {
		b.WriteString(hostdevXML(i, id))
	}

	b.WriteString("\t\t<disk device=\"disk\" type=\"file\">\n\t\t\t<source file=\"/disk.img\"></source>\n\t\t\t<target bus=\"virtio\" dev=\"vda\"></target>\n\t\t</disk>\n")
	b.WriteString("\t</devices>\n</domain>")
	return []byte(b.String())
}

func list(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}

func hostdevXML(n int, id string) string {
	alias := fmt.Sprintf("\t\t\t<alias name=\"ua-hostdevice-%d\"></alias>\n\t\t</hostdev>\n", n)
	if !strings.Contains(id, ":") {
		return "\t\t<hostdev type=\"mdev\" mode=\"subsystem\" model=\"vfio-pci\">\n\t\t\t<source>\n\t\t\t\t<address uuid=\"" + id + "\"></address>\n\t\t\t</source>\n" + alias
	}

	domain, rest, _ := strings.Cut(id, ":")
	bus, rest, _ := strings.Cut(rest, ":")
	slot, function, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("\t\t<hostdev type=\"pci\" managed=\"no\">\n\t\t\t<source>\n\t\t\t\t<address type=\"pci\" domain=\"0x%s\" bus=\"0x%s\" slot=\"0x%s\" function=\"0x%s\"></address>\n\t\t\t</source>\n", domain, bus, slot, function) + alias
}
