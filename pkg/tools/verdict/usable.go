package verdict

import (
	"cmp"
	"fmt"
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

	// bind is a device to be bound to another driver; nil for none
	bind *topology.Function

	// mayBeMeant is set for a NIC without a driver or RDMA that no GPU is near, as one of the front
	// end has none.
	mayBeMeant bool
}

// sentences formats faults, those with the same cure together.
func sentences(faults []fault) (all []string) {
	for _, f := range faults {
		var what []string
		for _, other := range faults {
			if other.cure == f.cure {
				what = append(what, other.what)
			}
		}

		const shown = 2
		text := words.FirstOf(what, shown, "; ") + ": " + f.cure
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}

	return all
}

// faultOf says why a device cannot work in the guest; the zero fault where the text shows no reason.
func (v *Verdict) faultOf(d *topology.Function) fault {
	name := v.guest.Label(d.Address)
	if address := strings.TrimPrefix(d.Address.String(), "0000:"); name != address &&
		paste.HasAddress(d.Address) {
		name += " (" + address + ")"
	}

	// A device may show several faults. Reported is the one that hides the others: first what is
	// wrong with the device, then a wrong driver or none, then what the right driver left
	// undone.
	is := v.guest.Faults[d.Address]
	switch {
	case is == paste.NoAnswer:
		return fault{what: name + " does not answer (rev ff)",
			cure: "restart the VM; if it stays so, the node's administrator has to reset the device",
			wish: "a reset of the device that is " + name + " in the VM"}
	case is == paste.NoBAR:
		return fault{what: name + " has a BAR without an address, so no driver can use it",
			cure: "usually the window for large BARs is too small: ask the administrator " +
				"(mmio-window=auto, OVMF, host-passthrough)",
			wish: "a larger window for 64-bit BARs (mmio-window=auto of hook-sidecar, with OVMF and " +
				"the CPU model host-passthrough: " + reasons.Page("docs/keys.md#mmio-window") + ")"}
	case isHeld(d) && !v.isNode():
		return fault{what: name + " has the driver " + words.Printable(d.Driver) +
			", so no program in this guest can use it",
			cure: "bind it to " + cmp.Or(driverOf(d), "that of its vendor") +
				", unless it is for a VM in the guest",
			bind: d}
	case slices.Contains(notCUDA, d.Driver):
		return fault{what: name + " has the driver " + d.Driver + ", which CUDA cannot use",
			cure: "install or load nvidia" + lookAt(d), bind: d}
	case is == paste.NoDriver && d.Driver == "":
		return fault{what: name + " has no driver",
			cure:       "install or load " + cmp.Or(driverOf(d), "that of its vendor") + lookAt(d),
			mayBeMeant: d.IsNIC() && !isNearGPU(&v.guest, d)}

	// A driver for VMs may leave memory off until a VM opens the device.
	case is == paste.BARsOff && !isHeld(d):
		return fault{what: name + " has memory that no driver has turned on ([disabled])",
			cure: "load its driver again, or restart the VM" + lookAt(d)}
	case is == paste.NoRDMA && v.guest.Names[d.Address] == "":
		return fault{what: name + " has no RDMA device",
			cure: "load its RDMA driver (mlx5_ib), or ask for a VF with RDMA",
			wish: "NICs or VFs with RDMA", mayBeMeant: !isNearGPU(&v.guest, d)}
	}

	return fault{}
}

// isHeld reports whether a driver keeps a device for programs other than NCCL: VMs, or none.
func isHeld(d *topology.Function) bool {
	return d.IsVFIO() || slices.Contains([]string{"pci-stub", "pciback", "uio_pci_generic",
		"igb_uio"}, d.Driver)
}

// notCUDA are the kernel's own drivers of NVIDIA's GPUs.
var notCUDA = []string{"nouveau", "nova_core", "nvidiafb"}

// drivers of vendors: of GPUs, and of NICs with RDMA.
var (
	gpuDrivers = map[uint16]string{
		topology.VendorNVIDIA: "nvidia", topology.VendorAMDGPU: "amdgpu", topology.VendorIntel: "xe",
	}
	nicDrivers = map[uint16]string{
		topology.VendorMellanox: "mlx5_core", topology.VendorAmazon: "efa",
		topology.VendorBroadcom: "bnxt_en",
	}
)

// driverOf returns the driver of a device that its user wants; "" for a vendor that is not known.
func driverOf(d *topology.Function) string {
	if d.IsNIC() {
		return nicDrivers[d.Vendor]
	}
	return gpuDrivers[d.Vendor]
}

// lookAt returns the commands that load a device's driver, and show what that says.
func lookAt(d *topology.Function) string {
	driver := driverOf(d)
	if driver == "" {
		return ""
	}

	says := driver
	if driver == gpuDrivers[topology.VendorNVIDIA] {
		says = "nvrm"
	}
	return fmt.Sprintf(" (`sudo modprobe %s`; `sudo dmesg | grep -i %s`)", driver, says)
}

// isNearGPU reports whether a switch is above a device and a GPU.
func isNearGPU(m *paste.Machine, d *topology.Function) bool {
	return slices.ContainsFunc(m.GPUs(), func(gpu *topology.Function) bool {
		between, isKnown := m.PathType(gpu.Address, d.Address)
		return isKnown && between <= topology.PXB
	})
}

// isNode reports whether VFIO has all GPUs of a machine that is not a VM under QEMU, as on a node
// that passes them to VMs. There nothing is to be bound to another driver.
func (v *Verdict) isNode() bool {
	isQEMUs := func(d topology.Function) bool {
		return d.Vendor == topology.VendorRedHat || d.Vendor == topology.VendorVirtio ||
			paste.IsEmulatedSwitch(&d)
	}
	return len(v.gpus) > 0 && !slices.ContainsFunc(v.guest.Functions, isQEMUs) &&
		!slices.ContainsFunc(v.gpus, func(d *topology.Function) bool { return !d.IsVFIO() })
}

// split separates the devices that cannot work from the others.
func (v *Verdict) split(all []*topology.Function) (usable []*topology.Function, faults []fault) {
	for _, d := range all {
		if f := v.faultOf(d); f != (fault{}) {
			v.faulty[d] = true
			faults = append(faults, f)
		} else {
			usable = append(usable, d)
		}
	}

	v.faults = append(v.faults, faults...)
	return usable, faults
}

// judgeFaults lowers a verdict that is better than its devices: a GPU that cannot work is lost, and
// without a NIC that works there is no network.
func (v *Verdict) judgeFaults(gpus, nics []fault) {
	if len(v.faults) == 0 {
		return
	}

	// NICs that no GPU is near, and that lack only a driver or RDMA, are probably those of the
	// front end. As long as others work they are worth a note, and do not lower the verdict.
	areMeant := !slices.ContainsFunc(v.faults, func(f fault) bool { return !f.mayBeMeant })
	all := strings.Join(sentences(slices.Concat(gpus, nics)), "; ")
	switch {
	case len(gpus) == len(v.gpus) && len(gpus) > 0:
		v.Outcome, v.short = Broken, "no GPU works"
		v.Cost = v.short + "; " + all
		return
	case len(nics) > 0 && len(v.nics) == 0:
		v.Outcome, v.short = Broken, "no NIC that NCCL can use"
		v.Cost = v.short + "; " + all
		return
	case areMeant && len(v.nics) > 0:
		v.Notes = append(v.Notes, sentences(nics)...)
		return
	case v.Outcome == Good:
		v.Outcome, v.Cost = Partly, strings.TrimSuffix(v.Cost, nearNICs)
	}

	// The sentences for an administrator list the faults themselves (situation), so the cost
	// without them is kept.
	v.short = v.Cost
	v.Cost = all + "; " + v.Cost
}

// hasBrokenNIC reports whether a NIC that cannot work is under a switch with a GPU.
func (v *Verdict) hasBrokenNIC(gpu *topology.Function) bool {
	for d := range v.faulty {
		between, isKnown := v.guest.PathType(gpu.Address, d.Address)
		if d.IsNIC() && isKnown && between <= topology.PXB {
			return true
		}
	}
	return false
}

// judgeNode says of GPUs that no program of this machine can use where they can be.
func (v *Verdict) judgeNode() {
	if !v.isNode() {
		return
	}

	const node = "VFIO has all GPUs, as on a node that passes them to VMs: run it in the VM"
	if v.Outcome == Good {
		v.Outcome, v.Cost = Unknown, node+"; "+v.Cost
	} else {
		v.Notes = append(v.Notes, node+". If this is the VM, bind them to the driver of their vendor")
	}
}

// judgeDriver says what a good tree needs besides, of which a text shows nothing.
func (v *Verdict) judgeDriver() {
	switch {
	case v.Outcome != Good || v.direct == 0:
	case v.isAMD():
		v.Cost += "; it needs DMA-BUF, too"
	default:
		v.Cost += "; it needs nvidia-peermem or DMA-BUF, too"
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

	// The tree is judged as if each link that is not in the text had the speed that QEMU gives
	// it. If even that limits no path, the links need not be known.
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
		v.Cost = "whether the links of QEMU's switches limit a path is not in the text: paste " +
			"lspci -vv of root, too; " + v.Cost
	}
}
