package paste

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words/lazyregexp"
)

// The lines that add names of NICs to addresses.
var (
	// 0000:05:00.0 mlx5_0 (MT4129 - ...) ConnectX-7 ... fw 28.39 port 1 (ACTIVE) ==> ibs1 (Up)
	ibdevLong = lazyregexp.New(`^\s*(` + longBusID + `)\s+(\S+)\s.*==>`)

	// mlx5_0 port 1 ==> ibs1 (Up)
	ibdev = lazyregexp.New(`^\s*(\S+)\s+port\s+[0-9]+\s+==>\s`)

	// ConnectX7(rev:0)  /dev/mst/mt4129_pciconf0  05:00.0  mlx5_0  net-ibs1  1
	mst = lazyregexp.New(`\s/dev/mst/\S+\s+(` + busID + `)\s+(\S+)` +
		`(?:\s+\S+\s+(-?[0-9]+|N/A))?`)

	// mlx5_0 -> ../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/infiniband/mlx5_0
	ibLink = lazyregexp.New(`devices/(pci\S+)/infiniband/(\S+)$`)
)

func isNICNames(t text) bool {
	return anyLine(t, func(line string) bool {
		return strings.Contains(line, "==>") &&
			(ibdevLong.MatchString(line) || ibdev.MatchString(line)) ||
			strings.Contains(line, "/dev/mst/") && mst.MatchString(line) ||
			strings.Contains(line, "/infiniband/") && ibLink.MatchString(line)
	})
}

// readNICNames reads ibdev2netdev, mst status -v, and ls -l /sys/class/infiniband: addresses and
// names of NICs, the latter with the path.
func readNICNames(t text) (Machine, error) {
	m := Machine{Sources: []Source{NICNames}}
	for _, line := range t.lines {
		d, name, node, found := nicIn(line)
		if found && !HasAddress(d.Address) {
			d.Address = nameStandIn.address(len(m.Functions))
		}

		isKnown := func(o topology.Function) bool {
			return o.Address == d.Address || m.Names[o.Address] == name
		}
		if !found || slices.ContainsFunc(m.Functions, isKnown) {
			continue
		}

		d.Class = topology.ClassEthernet
		if strings.HasPrefix(name, "mlx") {
			d.Vendor = topology.VendorMellanox
		}

		m.name(d.Address, name)

		var err error
		if d.Node, err = onNode(node); err != nil && node != "-1" { // which is on none
			m.lacksNode(d.Address)
		}

		if m.Functions = append(m.Functions, d); len(m.Functions) > maxDevices {
			return Machine{}, errTooMany
		}
	}

	return m.sorted()
}

// nicIn returns the NIC in a line, its name, and the number of its NUMA node; "" where the line has
// none.
func nicIn(line string) (d topology.Function, name, node string, found bool) {
	d.Address = nameStandIn.address(0)
	if match := ibLink.FindStringSubmatch(line); match != nil {
		d, err := placeOf(match[1])
		return d, match[2], "", err == nil
	}

	if match := ibdevLong.FindStringSubmatch(line); match != nil {
		d.Address, _ = topology.ParseAddress(match[1])
		return d, match[2], "", true
	}

	if match := mst.FindStringSubmatch(line); match != nil {
		d.Address, _ = lspciAddress(match[1])
		return d, match[2], match[3], true
	}

	if match := ibdev.FindStringSubmatch(line); match != nil {
		return d, match[1], "", true
	}

	return d, "", "", false
}
