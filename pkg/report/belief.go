package report

import (
	"fmt"
	"io"
	"slices"

	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/topology"
)

// WriteBelief writes what a guest believes of its GPUs and NICs, for a user who has only the guest:
// how many know their NUMA node, whether all are on one root bus, the pairs that are near each
// other, and what to send to whoever runs the cluster.
func WriteBelief(w io.Writer, name string, guest paste.Machine, style Style) error {
	p := &printer{Style: style}
	devices := passedThrough(guest)
	p.line(p.Paint(bold,
		fmt.Sprintf("%s (%s): %d GPUs and NICs that are not emulated", topology.Printable(name),
			guest.SourceNames(), len(devices))))

	if len(devices) == 0 {
		if !slices.ContainsFunc(guest.Devices, func(d topology.Device) bool {
			return d.Class != 0
		}) {
			p.line("the file has no classes, by which GPUs and NICs are recognised: lspci prints " +
				"them with -nn, NCCL in the file of NCCL_TOPO_DUMP_FILE")
		}

		return p.to(w)
	}

	known := topology.CountFunc(devices, func(i int) bool {
		return guest.KnowsNode(&guest.Devices[i])
	})

	nodes := topology.CountFunc(devices, func(i int) bool {
		return guest.Devices[i].Node != topology.Affinity{}
	})

	numa := fmt.Sprintf("%d of %d know their node", nodes, known)
	if known == 0 {
		numa = "nodes are not in the file"
	}

	p.line("NUMA: " + numa)
	between := map[topology.PathType][]string{}
	for k, i := range devices {
		for _, j := range devices[:k] {
			if t, known := guest.PathType(guest.Devices[j].Address, guest.Devices[i].Address); known {
				between[t] = append(between[t], label(guest, j)+"+"+label(guest, i))
			}
		}
	}

	if len(devices) > 1 {
		p.wrapped(plain, "paths: "+rootBuses(guest, between))
	}

	pairs := len(devices) * (len(devices) - 1) / 2
	for _, t := range []topology.PathType{topology.PIX, topology.PXB} {
		if len(between) > 0 {
			p.wrapped(plain,
				fmt.Sprintf("%s: %d of %s %s", t, len(between[t]), topology.Counted(pairs, "pair"),
					topology.FirstOf(between[t], 8, " ")))
		}
	}

	if nodes == 0 && len(between[topology.PHB]) == pairs && pairs > 0 {
		p.wrapped(Yellow,
			"this guest is flat: to NCCL all devices are equally far from each other and from "+
				"every CPU")
	}

	p.line("")
	p.wrapped(plain,
		"Send this and the file to whoever runs the cluster. There `kubectl hostdev explain VM` "+
			"shows where the devices are on the host, "+
			"and `hook-sidecar explain --domain vm.xml --guest FILE` compares the file with what was "+
			"planned.")

	return p.to(w)
}

// rootBuses says whether devices are on one root bus, which the path types between them tell.
func rootBuses(guest paste.Machine, between map[topology.PathType][]string) string {
	switch {
	case len(between) == 0:
		return "not in the file; those of lstopo and nvidia-smi topo -mp have them"
	case len(between[topology.NODE])+len(between[topology.SYS]) > 0:
		return "not all devices are on one root bus"
	case guest.Has(paste.NCCL): // which does not tell its root buses apart
		return "all devices are under one CPU"
	}

	return "all devices are on one root bus"
}

// label is the short name of a device of the guest.
func label(guest paste.Machine, i int) string { return guest.Label(guest.Devices[i].Address) }

// passedThrough returns the positions of the GPUs and NICs that no hypervisor emulates.
func passedThrough(guest paste.Machine) []int {
	const intel, realtek = 0x8086, 0x10ec

	// virtio, QEMU, its VGA, VMware, Hyper-V
	emulators := map[uint16]bool{
		0x1af4: true, 0x1b36: true, 0x1234: true, 0x15ad: true, 0x1414: true,
	}

	var positions []int
	for i, d := range guest.Devices {
		isOldNIC := d.Vendor == intel && (d.Device == 0x100e || d.Device == 0x10d3) ||
			d.Vendor == realtek && d.Device == 0x8139
		if d.IsGPUOrNIC() && !emulators[d.Vendor] && !isOldNIC {
			positions = append(positions, i)
		}
	}

	return positions
}
