package sys

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
)

// Seen returns what the models of consumers see of a machine by its /sys: the GPUs and NICs among
// devices, each with the ID that its name has. The CPU is not in it.
func (m Machine) Seen(sysfs fs.FS, devices []string) (consumers.Machine, error) {
	gpus, nics := m.inOrder(m.GPUs(devices)), m.inOrder(m.NICs(devices))
	names, err := idsOf(slices.Concat(gpus, nics))
	if err != nil {
		return consumers.Machine{}, err
	}

	ids, err := idsOf(m.addresses(slices.Concat(gpus, nics)))
	if err != nil {
		return consumers.Machine{}, err
	}

	shown, _ := host.Read(sysfs, nil, host.All|host.Details)
	nodes := shown.AsShown(shown.Tree(ids), ids).Devices(ids)
	link := func(n *topology.Node) topology.Link { return m.linkOf(shown, n) }
	seen := consumers.Machine{
		HasCells: m.isGuest && len(m.nodes) > 0, HasOneCell: m.isGuest && len(m.nodes) == 1,
		Machine: ncclgraph.Machine{Link: link}, Atomics: map[topology.ID]bool{},
	}

	for i, n := range nodes {
		renamed := *n // a node without children, under the same parent
		renamed.ID = names[i]
		if i >= len(gpus) {
			seen.NICs = append(seen.NICs, &renamed)
			continue
		}

		f := shown.Function(ids[i])
		if m.isGuest && f.NeedsAtomics() {
			port, at := n.Parent, f.Address // placement.HasAtomics has QEMU's rule
			seen.Atomics[names[i]] = port.Kind == topology.RootPort && len(port.Children) == 1 &&
				at.Device == 0 && at.Function == 0
		}

		seen.GPUs = append(seen.GPUs, ncclgraph.GPU{
			Node: &renamed, NVLink: ncclgraph.HasNVLink(f), XGMI: ncclgraph.HasXGMI(f),
		})
	}

	return seen, nil
}

// inOrder sorts devices as CUDA and the kernel number them: by address.
func (m Machine) inOrder(names []string) []string {
	return slices.SortedFunc(slices.Values(names), func(x, y string) int {
		return strings.Compare(m.Devices[x], m.Devices[y])
	})
}

// addresses returns the addresses of devices in the machine.
func (m Machine) addresses(names []string) []string {
	return topology.Map(names, func(name string) string { return m.Devices[name] })
}

// idsOf returns the IDs of PCI functions.
func idsOf(addresses []string) ([]topology.DeviceID, error) {
	ids := make([]topology.DeviceID, len(addresses))
	for i, text := range addresses {
		address, err := topology.ParseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("read device %d: %w", i, err)
		}
		ids[i] = topology.PCIDevice(address)
	}

	return ids, nil
}

// linkOf returns what sysfs shows of a device, by its name, or of a port.
func (m Machine) linkOf(shown *topology.Host, n *topology.Node) topology.Link {
	address, isPort := n.ID.(topology.Address)
	if !isPort {
		address, _ = topology.ParseAddress(m.Devices[n.ID.String()])
	}

	if link := shown.MaxLink(shown.FunctionAt(address)); link != nil {
		return *link
	}

	return topology.Link{}
}
