package doctor_test

import (
	"hook-sidecar/pkg/reasons"
)

// aGuest has a root port of QEMU.
const aGuest = `
pci0000:00/0000:00:01.0 vendor=0x1b36 class=0x060400
pci0000:00/0000:00:01.0/0000:01:00.0
`

func hostTests() map[string]map[string]test {
	return map[string]map[string]test{
		"sysfs": {
			"complete": {given{
				host: "cpus 0 0-3\npci0000:00/0000:00:01.0/0000:01:00.0", domain: domainOf(gpu),
			}, []string{
				"PASS 2 PCI functions, 0 mediated devices and 1 NUMA node",
			}},
			"empty": {given{}, []string{
				"FAIL sysfs shows no PCI devices (pass --sysfs the node's /sys or a snapshot of it)",
			}},
			"a device of another host": {given{
				host: "pci0000:00/0000:00:01.0/0000:02:00.0", domain: domainOf(gpu, vgpu),
			}, []string{
				"FAIL none of the 2 devices is on this machine (" + reasons.TakeSnapshot + ")",
			}},
			"an invalid file": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0 vendor=nvidia",
			}, []string{
				`WARN devices/pci0000:00/0000:00:01.0/0000:01:00.0/vendor: invalid number ` +
					`"nvidia": want hex of at most 16 bits (check the host's kernel and ` +
					`firmware; what cannot be read counts as missing)`,
			}},
		},
		"iommu-enabled": {
			"on": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0 group=1\n" +
					"pci0000:00/0000:00:02.0/0000:02:00.0 group=2",
			}, []string{
				"PASS 2 IOMMU groups",
			}},
			"off": {given{host: "pci0000:00/0000:00:01.0/0000:01:00.0"}, []string{
				"FAIL no PCI function is in an IOMMU group (enable VT-d, AMD-Vi or the SMMU in " +
					"the firmware, and boot with intel_iommu=on or amd_iommu=on)",
			}},
			"not recorded": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0 driver=vfio-pci",
			}, []string{
				"NOTE the IOMMU groups are not in the snapshot (take a snapshot on the node)",
			}},
			"off in a guest": {given{host: aGuest}, []string{
				"FAIL no PCI function is in an IOMMU group (this machine is a guest: give it a " +
					"vIOMMU, as viommu=intel does; for the host of a VM run doctor on its node)",
			}},
			// VFIO refuses it, whatever others have.
			"a GPU without a group": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0\n" +
					"pci0000:00/0000:00:02.0/0000:02:00.0 group=2",
				domain: domainOf(gpu, nic),
			}, []string{
				"FAIL 0000:01:00.0 is in no IOMMU group, and VFIO refuses it (look in the " +
					"host's kernel log for the IOMMU of its PCIe root: DMAR, AMD-Vi or smmu)",
			}},
		},
		"host-numa": {
			"two on two": {given{
				host: "packages 2\ncpus 0 0\ncpus 1 1\npci0000:00/0000:00:01.0",
			}, []string{
				"PASS 2 NUMA nodes on 2 CPU packages",
			}},
			"one on one": {given{host: "packages 1\ncpus 0 0\npci0000:00/0000:00:01.0"}, []string{
				"PASS 1 NUMA node on 1 CPU package",
			}},
			// NPS4, or sub-NUMA clustering
			"four on one": {given{
				host: "packages 1\ncpus 0 0\ncpus 1 1\ncpus 2 2\ncpus 3 3\npci0000:00/0000:00:01.0",
			}, []string{
				"PASS 4 NUMA nodes on 1 CPU package",
			}},
			"packages not shown": {given{
				host: "cpus 0 0\ncpus 1 1\npci0000:00/0000:00:01.0",
			}, []string{
				"PASS 2 NUMA nodes",
			}},
			"node interleaving": {given{
				host: "packages 2\ncpus 0 0-1\npci0000:00/0000:00:01.0",
			}, []string{
				"WARN 2 CPU packages but 1 NUMA node (disable node interleaving in the firmware " +
					"(on AMD: NPS1 or more), so that it reports each package's memory)",
			}},
			"a guest without cells": {given{host: "packages 2\ncpus 0 0-1" + aGuest}, []string{
				"WARN 2 CPU packages but 1 NUMA node (this machine is a guest: give it NUMA " +
					"cells; for the host of a VM run doctor on its node)",
			}},
			"nothing shown but one node": {given{
				host: "cpus 0 0-1\npci0000:00/0000:00:01.0",
			}, []string{
				"NOTE 1 NUMA node; sysfs does not show the CPU packages (on a machine with two " +
					"sockets disable node interleaving)",
			}},
			"no nodes": {given{host: "pci0000:00/0000:00:01.0"}, []string{
				"WARN sysfs shows no NUMA nodes (the kernel has no NUMA support, or its nodes " +
					"are hidden here)",
			}},
		},
	}
}

func deviceTests() map[string]map[string]test {
	noNode := " (" + reasons.NoHostNode.Remedy() + ")"
	leaveOut := func(other string) string {
		return " (leave 0000:01:00.0 out of VMs, or put it into another slot; do not bind " + other +
			" to vfio-pci: the node uses it)"
	}
	return map[string]map[string]test{
		"shared-device": {
			"two VMs": {given{
				host:   aHost,
				domain: domainOf(gpu, nic),
				others: []string{domainOf(audio), domainOf(nic)},
			}, []string{
				"FAIL 0000:02:00.0 is in the domains first and other: one of them starts (give " +
					"each VM devices of its own)",
			}},
			"each its own": {given{
				host: aHost, domain: domainOf(gpu), others: []string{domainOf(nic)},
			}, []string{"PASS 2 devices, each in one domain"}},
			"one VM": {given{host: aHost, domain: domainOf(gpu)}, nil},
		},
		"driver-bound": {
			"vfio-pci": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0 driver=vfio-pci", domain: domainOf(gpu),
			}, []string{
				"PASS 1 function bound to a passthrough driver",
			}},
			"a vendor's variant": {given{
				host:   "pci0000:00/0000:00:01.0/0000:01:00.0 driver=mlx5_vfio_pci",
				domain: domainOf(gpu),
			}, []string{
				"PASS 1 function bound to a passthrough driver",
			}},
			// NVIDIA's own driver passes virtual functions to VFIO (KubeVirt, shouldPermitNvidia).
			"vGPU as virtual function": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.4 driver=nvidia\n" +
					"pci0000:00/0000:00:01.0/0000:01:00.0 driver=nvidia physfn=0000:01:00.4",
				domain: domainOf(gpu),
			}, []string{
				"PASS 1 function bound to a passthrough driver",
			}},
			"the host's driver": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0 driver=nvidia", domain: domainOf(gpu),
			}, []string{
				"FAIL 0000:01:00.0 is bound to nvidia (once nothing on the node uses this GPU: " +
					"driverctl set-override 0000:01:00.0 vfio-pci)",
			}},
			"none": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0", domain: domainOf(gpu),
			}, []string{
				"FAIL 0000:01:00.0 is bound to no driver (bind it: driverctl set-override " +
					"0000:01:00.0 vfio-pci)",
			}},
			"of variables": {given{
				host:    "pci0000:00/0000:00:01.0/0000:01:00.0 driver=nvidia",
				environ: []string{"PCI_RESOURCE_X=0000:01:00.0"},
			}, []string{
				"FAIL 0000:01:00.0 is bound to nvidia (once nothing on the node uses this GPU: " +
					"driverctl set-override 0000:01:00.0 vfio-pci)",
			}},
			"a disk of the node": {given{
				host:    "pci0000:00/0000:00:01.0/0000:01:00.0 class=0x010802 group=1 driver=nvme",
				environ: []string{"PCI_RESOURCE_X=0000:01:00.0"},
			}, []string{
				"FAIL 0000:01:00.0 is bound to nvme (leave 0000:01:00.0 out of VMs if the node " +
					"uses this NVMe drive (lsblk and ip -details link on the node show it); only " +
					"else driverctl set-override 0000:01:00.0 vfio-pci)",
			}},
			"a host that offers nothing": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0 driver=nvidia",
			}, []string{
				"NOTE no function is bound to a VFIO driver (bind the devices for guests, and " +
					"none that the node uses, to vfio-pci, or create mediated devices)",
			}},
		},
		"iommu-group-viable": {
			"alone": {given{
				host:   "pci0000:00/0000:00:01.0/0000:01:00.0 group=1 driver=vfio-pci",
				domain: domainOf(gpu),
			}, []string{
				"PASS 1 IOMMU group without a host driver",
			}},
			"with what does not count": {given{host: `
pci0000:00/0000:00:01.0 group=1 class=0x060400 driver=pcieport
pci0000:00/0000:00:01.0/0000:01:00.0 group=1 driver=vfio-pci
pci0000:00/0000:00:01.0/0000:01:00.1 group=1
pci0000:00/0000:00:01.0/0000:01:00.2 group=1 driver=pci-stub`, domain: domainOf(gpu)}, []string{
				"PASS 1 IOMMU group without a host driver",
			}},
			"audio with the host": {given{host: `
pci0000:00/0000:00:01.0/0000:01:00.0 group=1 driver=vfio-pci
pci0000:00/0000:00:01.0/0000:01:00.1 group=1 class=0x040300 driver=snd_hda_intel`,
				domain: domainOf(gpu)}, []string{
				"FAIL IOMMU group 1 of 0000:01:00.0 also holds 0000:01:00.1, which is bound to " +
					"snd_hda_intel (bind this audio function of the same card, too: driverctl " +
					"set-override 0000:01:00.1 vfio-pci)",
			}},
			"disk, NIC and another card of the node": {given{host: `
pci0000:00/0000:00:01.0/0000:01:00.0 group=1 driver=vfio-pci
pci0000:00/0000:00:01.0/0000:01:00.1 group=1 class=0x010802 driver=nvme
pci0000:00/0000:00:01.0/0000:01:00.2 group=1 class=0x020000 driver=ixgbe
pci0000:00/0000:00:01.0/0000:01:01.0 group=1 class=0x0c0330 driver=xhci_hcd`,
				domain: domainOf(gpu)}, []string{
				"FAIL IOMMU group 1 of 0000:01:00.0 also holds 0000:01:00.1 (NVMe drive), " +
					"which the node uses with nvme" + leaveOut("0000:01:00.1"),
				"FAIL IOMMU group 1 of 0000:01:00.0 also holds 0000:01:00.2 (NIC), which the " +
					"node uses with ixgbe" + leaveOut("0000:01:00.2"),
				"FAIL IOMMU group 1 of 0000:01:00.0 also holds 0000:01:01.0 (USB " +
					"controller), which the node uses with xhci_hcd" + leaveOut("0000:01:01.0"),
			}},
		},
		"numa-node": {
			"known": {given{
				host:   "cpus 0 0\ncpus 1 1\npci0000:00/0000:00:01.0/0000:01:00.0 node=1",
				domain: domainOf(gpu),
			}, []string{
				"PASS 1 device with a NUMA node",
			}},
			"-1": {given{
				host:   "cpus 0 0\ncpus 1 1\npci0000:00/0000:00:01.0/0000:01:00.0 node=-1",
				domain: domainOf(gpu),
			}, []string{
				"WARN the kernel does not know the NUMA node of 0000:01:00.0" + noNode,
				"NOTE NVIDIA's device plugin reports 0000:01:00.0 to the kubelet as on node 0 " +
					"(the Topology Manager then aligns CPUs and memory with node 0, wherever " +
					"the device is: set the node in the firmware, or in numa_node before the " +
					"plugin starts)",
			}},
			// KubeVirt's own plugin reports no node.
			"-1 of another vendor": {given{
				host: "cpus 0 0\ncpus 1 1\n" +
					"pci0000:00/0000:00:01.0/0000:01:00.0 node=-1 vendor=0x15b3",
				domain: domainOf(gpu),
			}, []string{
				"WARN the kernel does not know the NUMA node of 0000:01:00.0" + noNode,
			}},
			"-1 on the only node": {given{
				host:   "cpus 0 0\npci0000:00/0000:00:01.0/0000:01:00.0 node=-1",
				domain: domainOf(gpu),
			}, []string{
				"NOTE the firmware reports no NUMA node for 0000:01:00.0; the host's only " +
					"node is used",
			}},
			"mdev of a GPU": {given{
				host: "cpus 0 0\ncpus 1 1\npci0000:00/0000:00:01.0/0000:01:00.0 node=0\n" +
					"pci0000:00/0000:00:01.0/0000:01:00.0/4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01 " +
					"type=nvidia-222",
				domain: domainOf(vgpu),
			}, []string{
				"PASS 1 device with a NUMA node",
			}},
			"mdev of no device": {given{
				host: "cpus 0 0\ncpus 1 1\n" +
					"virtual/mtty/mtty/4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01 type=mtty-1",
				domain: domainOf(vgpu),
			}, []string{
				"WARN 4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01 has no PCI device above it, and so " +
					"no NUMA node" + noNode,
			}},
		},
		"reset-method": {
			"has": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0 reset=flr,bus", domain: domainOf(gpu),
			}, []string{
				"PASS 1 function can be reset",
			}},
			"has none": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0 reset=", domain: domainOf(gpu),
			}, []string{
				"WARN the kernel has no method to reset 0000:01:00.0 (the next guest may get it " +
					"as the last one left it: drain and reboot the host between guests, or pass " +
					"it to one guest only)",
			}},
			// The kernel omits the file where it has no method; the file of another function
			// shows that this kernel has them.
			"has no file where others do": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0\n" +
					"pci0000:00/0000:00:01.0/0000:01:00.1 reset=flr",
				domain: domainOf(gpu),
			}, []string{
				"WARN the kernel has no method to reset 0000:01:00.0 (the next guest may get it " +
					"as the last one left it: drain and reboot the host between guests, or pass " +
					"it to one guest only)",
			}},
			"old kernel": {given{
				host: "pci0000:00/0000:00:01.0/0000:01:00.0", domain: domainOf(gpu),
			}, []string{
				"NOTE sysfs does not show how to reset 0000:01:00.0 (kernels since 5.15 have " +
					"reset_method)",
			}},
		},
	}
}
