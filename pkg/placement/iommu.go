package placement

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// HasIOMMU reports whether the guest has an IOMMU after Changes.
func (p *Plan) HasIOMMU() bool { return len(p.result.IOMMUs()) > 0 || p.result.CommandLineIOMMU }

// iommuIntel is libvirt's name for VT-d.
const iommuIntel = "intel"

// iommuConcerns warns of the limits of the guest's IOMMU.
func iommuConcerns(p *Plan) []reasons.Warning {
	warnings := untestedIOMMUs(p)
	if !p.HasIOMMU() {
		return warnings
	}
	for _, root := range p.GuestTree.Roots {
		for port := range root.Walk() {
			if port.Kind != topology.DownstreamPort || slices.ContainsFunc(port.Parent.Path(), isDownstreamPort) {
				continue
			}
			var devices []string
			parents := map[*topology.Node]bool{}
			for device := range port.Endpoints() {
				devices = append(devices, device.ID.String())
				parents[device.Parent] = true
			}
			if len(parents) > 1 {
				warnings = append(warnings, reasons.NewWarning(reasons.CodeVIOMMUGroup, nil,
					"devices under one port of a switch share an IOMMU group in the guest: "+strings.Join(devices, ", ")))
			}
		}
	}
	return warnings
}

// isDownstreamPort reports whether a node is a switch's port. QEMU's have no ACS
// (hw/pci-bridge/xio3130_downstream.c), so that a guest's kernel puts all under one
// into a group (Linux drivers/iommu/iommu.c, pci_device_group).
func isDownstreamPort(n *topology.Node) bool { return n.Kind == topology.DownstreamPort }

// untestedIOMMUs warns of IOMMUs that are not known to serve devices under expander
// buses. VT-d does (test/boot, TestVIOMMU).
func untestedIOMMUs(p *Plan) []reasons.Warning {
	var warnings []reasons.Warning
	for _, iommu := range p.result.IOMMUs() {
		if iommu.Model != iommuIntel {
			warnings = append(warnings, reasons.NewWarning(reasons.CodeVIOMMU, nil, fmt.Sprintf("the domain has a vIOMMU of model %q", topology.Abridge(iommu.Model))))
		}
	}
	if p.result.CommandLineIOMMU {
		warnings = append(warnings, reasons.NewWarning(reasons.CodeVIOMMU, nil, "the domain has a vIOMMU in qemu:commandline, which libvirt does not know"))
	}
	return warnings
}
