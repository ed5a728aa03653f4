package speed

import (
	"fmt"
	"strings"
)

// Host returns a host for so many devices in the format of package hostfs, and their addresses: a
// GPU and a NIC under each switch, four switches under each PCIe root, the PCIe roots on two nodes
// in turn.
func Host(devices int) (lines string, addresses []string) {
	var host strings.Builder
	classes := []string{"0x030200", "0x020700"} // GPU and NIC
	host.WriteString("cpus 0 0-31\ncpus 1 32-63\n")

	for i := range devices {
		root, unit := i/8, i/2%4
		segment, bus := root/8, root%8*0x20
		upstream := bus + 1 + 4*unit
		address := fmt.Sprintf("%04x:%02x:00.0", segment, upstream+2+i%2)
		addresses = append(addresses, address)
		fmt.Fprintf(&host, "pci%04x:%02x/", segment, bus)
		for _, bridge := range [][2]int{{bus, unit + 1}, {upstream, 0}, {upstream + 1, i % 2}} {
			fmt.Fprintf(&host, "%04x:%02x:%02x.0/", segment, bridge[0], bridge[1])
		}

		fmt.Fprintf(&host, "%s node=%d group=%d driver=vfio-pci class=%s\n", address, root%2, i,
			classes[i%2])
	}

	return host.String(), addresses
}

// othersFrom is the PCI domain of the functions that no VM of this package has.
const othersFrom = 0x100

// Functions returns more functions of a host, 256 on each bus.
func Functions(count int) string {
	var host strings.Builder
	for i := range count {
		bus := fmt.Sprintf("%04x:01", othersFrom+i/256)
		fmt.Fprintf(&host,
			"pci%s:00/%[1]s:00:01.0/%s:%02x.%d node=%d group=%d driver=vfio-pci class=0x020000\n",
			bus[:4], bus, i%256/8, i%8, i/256%2, 10_000+i)
	}

	return host.String()
}
