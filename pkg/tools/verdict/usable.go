package verdict

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// fault is why a device cannot work in the guest.
type fault struct {
	what string // is wrong with which device
	cure string // for the guest's user
	wish string // of an administrator; "" where the user cures it

	// mayBeMeant is set for a NIC without RDMA that no GPU is near, as one of the front end has none.
	mayBeMeant bool
}

// String formats a fault with its cure; "" for none.
func (f fault) String() string {
	if f == (fault{}) {
		return ""
	}
	return f.what + ": " + f.cure
}

// faultOf says why a device cannot work in the guest; the zero fault where the text shows no reason.
func (v *Verdict) faultOf(d *topology.Function) fault {
	name := v.guest.Label(d.Address)
	if address := strings.TrimPrefix(d.Address.String(), "0000:"); name != address &&
		paste.HasAddress(d.Address) {
		name += " (" + address + ")"
	}

	switch v.guest.Faults[d.Address] {
	case paste.NoAnswer:
		return fault{name + " does not answer (rev ff)",
			"restart the VM; if it stays so, the node's administrator has to reset the device",
			"a reset of the device that is " + name + " in the VM", false}
	case paste.NoBAR:
		return fault{name + " has a BAR without an address, so no driver can use it",
			"the VM needs a larger 64-bit window, in the policy of hook-sidecar mmio-window=auto",
			"a larger window for 64-bit BARs (mmio-window=auto of hook-sidecar, " +
				reasons.Page("docs/guest.md#mmio-window") + ")", false}
	case paste.NoRDMA:
		if v.guest.Names[d.Address] == "" {
			return fault{name + " has no RDMA device",
				"load its RDMA driver (mlx5_ib), or ask for a VF with RDMA", "NICs or VFs with RDMA",
				!isNearGPU(&v.guest, d)}
		}
	}

	if d.IsVFIO() && !v.passesAll() {
		driver := "nvidia or amdgpu"
		if d.IsNIC() {
			driver = "that of its vendor, such as mlx5_core"
		}

		return fault{name + " has the driver " + words.Printable(d.Driver) +
			", so no program in this guest can use it",
			"bind it to " + driver + ", unless it is for a VM in the guest", "", false}
	}

	return fault{}
}

// isNearGPU reports whether a switch is above a device and a GPU.
func isNearGPU(m *paste.Machine, d *topology.Function) bool {
	return slices.ContainsFunc(m.GPUs(), func(gpu *topology.Function) bool {
		between, isKnown := m.PathType(gpu.Address, d.Address)
		return isKnown && between <= topology.PXB
	})
}

// passesAll reports whether VFIO has all GPUs, as on a node that passes them to VMs. There nothing is
// to be bound to another driver.
func (v *Verdict) passesAll() bool {
	return len(v.gpus) > 0 && !slices.ContainsFunc(v.gpus, func(d *topology.Function) bool {
		return !d.IsVFIO()
	})
}

// split separates the devices that cannot work from the others.
func (v *Verdict) split(all []*topology.Function) (usable []*topology.Function, faults []string) {
	for _, d := range all {
		if f := v.faultOf(d); f != (fault{}) {
			v.faults, v.faulty[d] = append(v.faults, f), true
			faults = append(faults, f.String())
		} else {
			usable = append(usable, d)
		}
	}

	return usable, faults
}

// judgeFaults lowers a verdict that is better than its devices: a GPU that cannot work is lost, and
// without a NIC that works there is no network.
func (v *Verdict) judgeFaults(gpus, nics []string) {
	faults := slices.Concat(gpus, nics)
	if len(faults) == 0 {
		return
	}

	switch isBad := v.Outcome == Flat || v.Outcome == Unknown; {
	case len(gpus) == len(v.gpus) && len(gpus) > 0:
		v.Outcome, v.Cost, v.lost = Flat, "no GPU works", true
	case len(gpus) > 0 && !isBad:
		v.Outcome = Partly
	case len(nics) > 0 && len(v.nics) == 0:
		v.Outcome, v.Cost, v.lost = Flat, "no NIC that NCCL can use", true
	}

	areMeant := !slices.ContainsFunc(v.faults, func(f fault) bool { return !f.mayBeMeant })
	if v.Outcome == Good && !areMeant {
		v.Outcome, v.Cost = Partly, strings.TrimSuffix(v.Cost, nearNICs)
	} else if len(gpus) == 0 && len(v.nics) > 0 {
		v.Notes = append(v.Notes, faults...)
		return
	}

	v.short = v.Cost
	const shown = 2
	v.Cost += "; " + words.FirstOf(faults, shown, "; ")
}

// judgePassed lowers a good verdict about GPUs that no program of this machine can use.
func (v *Verdict) judgePassed() {
	if v.Outcome == Good && v.passesAll() {
		v.Outcome = Unknown
		v.Cost += "; but VFIO has all GPUs, as on a node that passes them to VMs: run it in the VM"
	}
}

// judgeOneNode lowers a good verdict about GPUs alone that are all on the guest's only node, and none
// nearer to another: this is so wherever they are on the host.
func (v *Verdict) judgeOneNode() {
	nodes, _ := valuesOf(v.GPUs, func(g GPU) *int { return g.Node })
	near := v.Relations[0].PIX + v.Relations[0].PXB
	if v.Outcome == Good && near == 0 && len(v.nics) == 0 && len(nodes) == len(v.GPUs) &&
		len(v.guest.NUMA) < 2 && !areSeveral(nodes) {
		v.Outcome = Unknown
		v.Cost += ", the only one that the guest shows, and no NIC is in it: both say nothing of " +
			"where the GPUs are on the host"
	}
}

// judgeUnseenLinks lowers a good verdict about paths through switches of QEMU's whose links are not
// in the text: they are slow unless port-speed=host is set.
func (v *Verdict) judgeUnseenLinks() {
	if v.Outcome != Good {
		return
	}

	seen := linksOf(&v.guest)
	isUnseen := false
	graph := machine(&v.guest, v.gpus, v.nics)
	graph.Link = func(n *topology.Node) topology.Link {
		a, isBridge := n.ID.(topology.Address)
		d := v.guest.FunctionAt(a)
		if !isBridge || !paste.IsEmulatedSwitch(d) || d.MaxLink != nil {
			return seen(n)
		}

		isUnseen = true
		return topology.Link{Speed: 2.5, Width: 1} // hw/pci-bridge/xio3130_upstream.c
	}

	if graph.IsLimited() && isUnseen {
		v.Outcome = Unknown
		v.Cost += "; whether the links of QEMU's switches limit a path is not in the text: paste " +
			"lspci -vv of root, too"
	}
}
