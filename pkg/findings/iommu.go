package findings

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// untestedIOMMU finds IOMMUs of the guest that are not known to serve devices under expander
// buses. VT-d does (test/boot, TestVIOMMU).
func untestedIOMMU(plan *placement.Plan) []reasons.Finding {
	var all []reasons.Finding
	for _, iommu := range plan.Domain().IOMMUs() {
		if iommu.Model != "intel" {
			all = append(all,
				one("the domain has a vIOMMU of model %q", words.Abridge(iommu.Model))...)
		}
	}

	if plan.Domain().CommandLineIOMMU() {
		all = append(all,
			one("the domain has a vIOMMU in qemu:commandline, which libvirt does not know")...)
	}

	return all
}

// sharedGroups finds devices that share an IOMMU group in the guest.
func sharedGroups(plan *placement.Plan) []reasons.Finding {
	if !plan.Domain().HasIOMMU() {
		return nil
	}

	var all []reasons.Finding
	for _, root := range plan.GuestTree.Roots {
		for n := range root.Walk() {
			isTop := isDownstreamPort(n) && !slices.ContainsFunc(n.Parent.Path(), isDownstreamPort)
			if devices := under(n); isTop && len(devices) > 1 {
				all = append(all, one("devices under one port of a switch share an IOMMU group "+
					"in the guest: %s", strings.Join(devices, ", "))...)
			}
		}
	}

	return all
}

// isDownstreamPort reports whether a node is a switch's port. QEMU's have no ACS
// (hw/pci-bridge/xio3130_downstream.c and cxl_downstream.c), so that a guest's kernel puts all
// under one into a group (Linux drivers/iommu/iommu.c, pci_device_group).
func isDownstreamPort(n *topology.Node) bool { return n.Kind == topology.DownstreamPort }

// under returns the functions under a node; none where all are directly under one port.
func under(n *topology.Node) []string {
	var devices []string
	parents := map[*topology.Node]bool{}
	for device := range n.Endpoints() {
		devices = append(devices, device.ID.String())
		parents[device.Parent] = true
	}

	if len(parents) < 2 {
		return nil
	}

	return devices
}

// ssidSize finds the attribute of KubeVirt that libvirt drops.
func ssidSize(plan *placement.Plan) []reasons.Finding {
	count := plan.Before().SSIDSizes()
	if count == 0 {
		return nil
	}

	return one("%d SMMUv3 with ssidSize, as KubeVirt writes it: libvirt 12.7 and later know "+
		"ssidsize, and drop the other without a word", count)
}
