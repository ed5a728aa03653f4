package doctor_test

import (
	"fmt"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/doctor"
)

// numaTests tests the checks of numa.go.
func numaTests() map[string]map[string]test {
	const noCells = "FAIL the guest has no NUMA cells, so layout numa cannot place a device"
	noGuestNUMA := " (" + reasons.NoGuestNUMA.Remedy() + ")"
	align := " (" + reasons.NoGuestCell.Remedy() + ")"
	pins := func(cpus ...string) string {
		text := "<cputune>"
		for vcpu, list := range cpus {
			text += fmt.Sprintf("<vcpupin vcpu='%d' cpuset='%s'/>", vcpu, list)
		}
		return text + "</cputune>"
	}

	return map[string]map[string]test{
		"vcpu-nodes": {
			"on the device's node": {given{
				host: aHost, domain: domainWith(twoCells+memnodes+pins("0", "1"), uefi, gpu),
			}, []string{"PASS pinned to node 0, as the devices are"}},
			"on both nodes": {given{
				host: aHost, domain: domainWith(twoCells+memnodes+pins("0", "4"), uefi, gpu, nic),
			}, []string{"PASS pinned to nodes 0, 1, as the devices are"}},
			"on the other node": {given{
				host: aHost, domain: domainWith(twoCells+memnodes+pins("0", "1"), uefi, gpu, nic),
			}, []string{
				"WARN 0000:02:00.0 is on node 1, the vCPUs are pinned to node 0" + align,
			}},
			"two devices on the other node": {given{
				host: aHost, domain: domainWith(twoCells+memnodes+pins("4-5"), uefi, gpu, audio),
			}, []string{
				"WARN 0000:01:00.0, 0000:01:00.1 are on node 0, the vCPUs of cell 0 are pinned " +
					"to node 1" + align,
			}},
			// Each cell has its memory on one node and its vCPUs on the other.
			"on each other's node": {given{
				host:   aHost,
				domain: domainWith(twoCells+memnodes+pins("4", "5", "0", "1"), uefi, gpu, nic),
			}, []string{
				"WARN 0000:01:00.0 is on node 0, the vCPUs of cell 0 are pinned to node 1" + align,
				"WARN 0000:02:00.0 is on node 1, the vCPUs of cell 1 are pinned to node 0" + align,
			}},
			"not pinned": {given{host: aHost, domain: domainOf(gpu)}, nil},
		},
		"guest-numa": {
			"two cells": {given{
				host: aHost, domain: domainOf(gpu),
			}, []string{"PASS 2 guest NUMA cells"}},
			"asked for by VMI": {given{
				host: aHost, vmi: vmi(allThree, ""),
			}, []string{"PASS the VMI asks for guest NUMA cells"}},
			"no cells": {given{host: aHost, domain: domainWith("", uefi, gpu)}, []string{
				noCells + noGuestNUMA,
			}},
			"no cells, and all devices stay": {given{
				host: aHost, domain: domainWith("", uefi, gpu),
				vmi: vmi(allThree, `"kubevirt.io/placePCIDevicesOnRootComplex":"true"`),
			}, []string{
				"WARN the guest has no NUMA cells, so it sees no NUMA node of a device (" +
					findings.CellsRemedy() + ")",
			}},
			"no cells, and the host has one node": {given{
				host:   "cpus 0 0-3\npci0000:00/0000:00:01.0/0000:01:00.0 node=0 driver=vfio-pci group=1",
				domain: domainWith("", uefi, gpu),
				layout: policy.LayoutAuto,
			}, []string{
				"NOTE the guest has no NUMA cells: the host has one node, so they would tell the " +
					"guest nothing about its devices (" + findings.CellsRemedy() + ")",
			}},
			"no cells and a VMI without": {given{
				host:   aHost,
				domain: domainWith("", uefi, gpu),
				vmi:    vmi(`"cpu":{"dedicatedCpuPlacement":true}`, ""),
			}, []string{
				noCells +
					" (set spec.domain.memory.hugepages and " +
					"spec.domain.cpu.numa.guestMappingPassthrough in the VMI)",
			}},
			"a VMI without, alone": {given{
				host: aHost, vmi: vmi(`"memory":{"hugepages":{"pageSize":"1Gi"}}`, ""),
			}, []string{
				"FAIL the guest will have no NUMA cells, so layout numa cannot place a device " +
					"(set spec.domain.cpu.dedicatedCpuPlacement and " +
					"spec.domain.cpu.numa.guestMappingPassthrough in the VMI)",
			}},
			"cells of no node": {given{
				host: aHost, domain: domainWith(twoCells, uefi, gpu),
			}, []string{
				"WARN 2 guest NUMA cells, on unknown host nodes (bind cells to nodes with " +
					"numatune/memnode, or pin the vCPUs)",
			}},
			// root and mirror need no cells.
			"no cells and another layout": {given{host: aHost, domain: domainWith("", uefi, gpu),
				inputs: func(in *doctor.Inputs) {
					in.Plan.Layout = policy.LayoutRoot
				}}, []string{
				"WARN the guest has no NUMA cells, so it sees no NUMA node of a device (give " +
					"the guest NUMA cells: set dedicatedCpuPlacement, hugepages and " +
					"numa.guestMappingPassthrough in the VMI)",
			}},
			// Without devices the guest needs no cells.
			"no devices": {given{host: aHost, domain: domainWith("", uefi)}, nil},
		},
	}
}
