package doctor_test

import "strings"

func linkTests() map[string]map[string]test {
	const (
		idle = " (check again under load: an idle GPU lowers its speed to save power; " +
			"otherwise reseat the card or its riser)"
		seat   = " (reseat the card or its riser, and check the slot's bifurcation in the firmware)"
		asRoot = " (run doctor, or take the snapshot, as root on the node)"
		port   = "pci0000:00/0000:00:01.0 class=0x060400 "
		card   = "\npci0000:00/0000:00:01.0/0000:01:00.0 "
	)
	return map[string]map[string]test{
		"link-degraded": {
			"full": {given{
				host:   port + "maxlink=32.0x16" + card + "link=32.0x16 maxlink=32.0x16",
				domain: domainOf(gpu),
			}, []string{
				"PASS 1 link at full speed and width",
			}},
			"narrow": {given{
				host:   port + "maxlink=32.0x16" + card + "link=32.0x8 maxlink=32.0x16",
				domain: domainOf(gpu),
			}, []string{
				"WARN the link of 0000:01:00.0 has 8 of 16 lanes" + seat,
			}},
			"slow": {given{
				host:   port + "maxlink=32.0x16" + card + "link=2.5x16 maxlink=32.0x16",
				domain: domainOf(gpu),
			}, []string{
				"WARN the link of 0000:01:00.0 runs at 2.5 GT/s x16 instead of 32 GT/s x16" + idle,
			}},
			"a slot that supports less": {given{
				host:   port + "maxlink=16.0x8" + card + "link=16.0x8 maxlink=32.0x16",
				domain: domainOf(gpu),
			}, []string{
				"NOTE 0000:01:00.0 supports 32 GT/s x16, its slot 16 GT/s x8 (use a faster slot)",
			}},
			// The link of the root port is the switch's, and that of the downstream port
			// the card's: each counts once.
			"a switch's link": {given{host: `
pci0000:00/0000:00:01.0 class=0x060400 link=16.0x16 maxlink=32.0x16
pci0000:00/0000:00:01.0/0000:02:00.0 class=0x060400 link=16.0x16 maxlink=32.0x16
pci0000:00/0000:00:01.0/0000:02:00.0/0000:03:00.0 class=0x060400 link=32.0x16 maxlink=32.0x16
pci0000:00/0000:00:01.0/0000:02:00.0/0000:03:00.0/0000:01:00.0 link=32.0x16 maxlink=32.0x16`, domain: domainOf(gpu)}, []string{
				"WARN the link of 0000:02:00.0 runs at 16 GT/s x16 instead of 32 GT/s x16" + idle,
			}},
			// A virtual function has no link of its own.
			"of the physical function": {given{host: port + "maxlink=32.0x16" + card +
				"physfn=0000:01:00.1" +
				"\npci0000:00/0000:00:01.0/0000:01:00.1 link=32.0x4 maxlink=32.0x16",
				domain: domainOf(gpu)}, []string{
				"WARN the link of 0000:01:00.1 has 4 of 16 lanes" + seat,
			}},
			"not shown": {given{host: "pci0000:00/0000:01:00.0", domain: domainOf(gpu)}, []string{
				"NOTE sysfs shows no link state",
			}},
		},
		"acs": {
			"no redirection": {given{
				host: port + "acs=off" + card + "group=1", domain: domainOf(gpu),
			}, []string{
				"PASS 1 port without redirection",
			}},
			"redirection": {given{
				host: port + "acs=rr,cr" + card + "group=1", domain: domainOf(gpu),
			}, []string{
				"NOTE ports that send peer-to-peer requests to the IOMMU: 1 of 1 (peer-to-peer " +
					"traffic under these ports goes through the CPU unless the devices use ATS)",
			}},
			"not privileged": {given{
				host: port + card + "group=1", domain: domainOf(gpu),
			}, []string{
				"NOTE the ACS of 1 port cannot be read here; the IOMMU groups show what is isolated" + asRoot,
			}},
			"no ACS between two cards": {given{host: port + "acs=none" + card +
				"group=1\npci0000:00/0000:00:02.0 class=0x060400 acs=none" +
				"\npci0000:00/0000:00:02.0/0000:02:00.0 group=1", domain: domainOf(gpu, nic)},
				[]string{
					"WARN 0000:01:00.0 and 0000:02:00.0 share IOMMU group 1: no port above " +
						"isolates them (pass both to one guest or to none; enable ACS in the " +
						"firmware, or use slots under different ports)",
				}},
			"the other card is the node's": {given{host: port + "acs=none" + card +
				"group=1 driver=vfio-pci\npci0000:00/0000:00:02.0 class=0x060400 acs=none" +
				"\npci0000:00/0000:00:02.0/0000:02:00.0 class=0x020000 group=1 driver=ixgbe",
				domain: domainOf(gpu)},
				[]string{
					"WARN 0000:01:00.0 and 0000:02:00.0 share IOMMU group 1: no port above " +
						"isolates them (leave 0000:01:00.0 out of VMs: the node uses 0000:02:00.0; " +
						"enable ACS in the firmware, or use slots under different ports)",
				}},
			// Functions of one card usually share a group.
			"two functions of one card": {given{
				host: port + "acs=off" + card +
					"group=1\npci0000:00/0000:00:01.0/0000:01:00.1 group=1",
				domain: domainOf(gpu, audio),
			}, []string{
				"PASS 1 port without redirection",
			}},
		},
		"ats": {
			"has": {given{host: port + card + "ats=on", domain: domainOf(gpu)}, []string{
				"PASS 1 device with ATS",
			}},
			// It is enabled when the device is assigned; the capability counts.
			"has and is off": {given{
				host: port + card + "ats=off", domain: domainOf(gpu),
			}, []string{
				"PASS 1 device with ATS",
			}},
			"has none": {given{host: port + card + "ats=none", domain: domainOf(gpu)}, []string{
				"NOTE without ATS: 0000:01:00.0 (for GPUDirect under ports with ACS: mlxconfig " +
					"-d DEVICE set ATS_ENABLED=true on ConnectX, then reboot the host)",
			}},
			"not privileged": {given{host: port + card, domain: domainOf(gpu)}, []string{
				"NOTE the ATS of 1 device cannot be read here" + asRoot,
			}},
		},
	}
}

func mdevTests() map[string]map[string]test {
	const (
		card   = "pci0000:00/0000:00:01.0/0000:01:00.0"
		first  = "/4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"
		other  = "/0c9d2b77-1f0e-4f4e-8f57-6a2e5b8d4c02"
		remove = "echo 1 > /sys/bus/mdev/devices/UUID/remove, or echo 0 > " +
			"nvidia/current_vgpu_type of the virtual function"
		stale = "look for a process that still holds the GPU (nvidia-smi vgpu -q); once no VM " +
			"of the node has a vGPU, restart nvidia-vgpu-mgr or reset the GPU"
		size = " (use types of one size, unless the GPU is in mixed-size mode: in equal-size " +
			"mode all its vGPUs have the size of the first)"
	)
	return map[string]map[string]test{
		"mdev-types": {
			"one type": {given{
				host: card + first + " type=nvidia-222\n" + card + other + " type=nvidia-222",
			}, []string{
				"PASS 1 device with vGPUs of one type each",
			}},
			"two types": {given{
				host: card + first + " type=nvidia-222\n" + card + other + " type=nvidia-230",
			}, []string{
				"WARN 0000:01:00.0 has vGPUs of the types nvidia-222 and nvidia-230" + size,
			}},
			// Since Ampere each mediated device has its own virtual function.
			"two types on virtual functions": {given{host: `
pci0000:00/0000:00:01.0/0000:01:00.0
pci0000:00/0000:00:01.0/0000:01:00.4 physfn=0000:01:00.0
pci0000:00/0000:00:01.0/0000:01:00.5 physfn=0000:01:00.0
pci0000:00/0000:00:01.0/0000:01:00.4` + first + ` type=nvidia-590
pci0000:00/0000:00:01.0/0000:01:00.5` + other + ` type=nvidia-592`}, []string{
				"WARN 0000:01:00.0 has vGPUs of the types nvidia-590 and nvidia-592" + size,
			}},
			"two types of vendor VFIO": {given{
				host: strings.Replace(vendorVFIO, "creatable=\n", "creatable= vgpu=1414\n", 1),
			}, []string{
				"WARN 0000:41:00.0 has vGPUs of the types 1414 (NVIDIA H200X-1-18C) and 1428 " +
					"(NVIDIA H200X-141C)" + size,
			}},
		},
		"mdev-unused": {
			"all used": {given{
				host: card + first + " type=nvidia-222", domain: domainOf(vgpu),
			}, []string{
				"PASS 1 vGPU, all used",
			}},
			"one unused": {given{
				host:   card + first + " type=nvidia-222\n" + card + other + " type=nvidia-222",
				domain: domainOf(vgpu),
			}, []string{
				"NOTE the domain does not use 1 vGPU of 0000:01:00.0, and it keeps its type: " +
					"nvidia-222 (if no other VM uses them either: " + remove +
					", before the GPU can get another type)",
			}},
			// The kernel's sample mtty has no PCI device above it.
			"one unused without a PCI parent": {given{
				host: card + first + " type=nvidia-222\nvirtual/mtty/mtty" + other +
					" type=mtty-1",
				domain: domainOf(vgpu),
			}, []string{
				"NOTE the domain does not use 0c9d2b77-1f0e-4f4e-8f57-6a2e5b8d4c02: type " +
					"mtty-1, no PCI device above it",
			}},
			"no domain": {given{host: card + first + " type=nvidia-222"}, []string{
				"NOTE 1 vGPU on the host (pass --domain to see which ones it does not use, or " +
					"the directory of the domains of all VMs of the node)",
			}},
			// Nova's problem: mediated devices outlive their VM.
			"an orphan of a node": {given{
				host:   card + first + " type=nvidia-222\n" + card + other + " type=nvidia-222",
				domain: domainOf(vgpu),
				others: []string{domainOf(gpu)},
			}, []string{
				"WARN no domain uses 1 vGPU of 0000:01:00.0, and it keeps its type: nvidia-222 " +
					"(if these are the domains of all VMs of the node: " + remove + ")",
			}},
			"used by another VM of the node": {given{
				host:   card + first + " type=nvidia-222",
				domain: domainOf(gpu),
				others: []string{domainOf(vgpu)},
			}, []string{
				"PASS 1 vGPU, all used",
			}},
			"a virtual function with a type": {given{
				host: vendorVFIO, domain: domainOf(gpu), others: []string{domainOf(nic)},
			}, []string{
				"WARN no domain uses 1 vGPU of 0000:41:00.0, and it keeps its type: 1428 " +
					"(NVIDIA H200X-141C) (if these are the domains of all VMs of the node: " +
					remove + ")",
			}},
		},
		"vgpu-capacity": {
			"complete": {given{
				host: card +
					" mdevtype=nvidia-222:GRID_T4-1B:15:16 mdevtype=nvidia-230:GRID_T4-1Q:0:16\n" +
					card + first + " type=nvidia-222",
			}, []string{
				"PASS 1 device as the types promise",
			}},
			"one is lost": {given{
				host: card + " mdevtype=nvidia-222:GRID_T4-1B:14:16\n" + card + first +
					" type=nvidia-222",
			}, []string{
				"WARN 0000:01:00.0 gives 15 of 16 vGPUs of type nvidia-222: 1 exist, 14 can be " +
					"created (" + stale + ")",
			}},
			"all are lost": {given{host: card + " mdevtype=nvidia-222:GRID_T4-1B:0:16"}, []string{
				"WARN 0000:01:00.0 has no vGPU, and none can be created (" + stale +
					"; with MIG, create GPU instances first)",
			}},
			// Their number depends on the GPU instances that exist.
			"MIG": {given{
				host: card + " mdevtype=nvidia-222:GRID_A100-1-5C:1:7\n" + card + first +
					" type=nvidia-222",
			}, []string{
				"PASS 1 device as the types promise",
			}},
			// A free virtual function offers 1, as long as the GPU has room.
			"virtual functions": {given{host: `
pci0000:00/0000:00:01.0/0000:01:00.0
pci0000:00/0000:00:01.0/0000:01:00.4 physfn=0000:01:00.0 mdevtype=nvidia-590:NVIDIA_A10-12Q:0:2
pci0000:00/0000:00:01.0/0000:01:00.5 physfn=0000:01:00.0 mdevtype=nvidia-590:NVIDIA_A10-12Q:1:2
pci0000:00/0000:00:01.0/0000:01:00.6 physfn=0000:01:00.0 mdevtype=nvidia-590:NVIDIA_A10-12Q:1:2
pci0000:00/0000:00:01.0/0000:01:00.4` + first + ` type=nvidia-590`}, []string{"PASS 1 device as the types promise"}},
			"vendor VFIO": {given{host: vendorVFIO},
				[]string{"PASS 1 device as the types promise"}},
			"vendor VFIO, all lost": {given{
				host: strings.NewReplacer("vgpu=1428", "",
					"creatable=1428:NVIDIA_H200X-141C,1414:NVIDIA_H200X-1-18C",
					"creatable=").Replace(vendorVFIO),
			}, []string{
				"WARN 0000:41:00.0 has no vGPU, and none can be created (" + stale +
					"; with MIG, create GPU instances first)",
			}},
			"a snapshot without": {given{host: card + first + " type=nvidia-222"}, nil},
		},
	}
}

// vendorVFIO is a GPU with two virtual functions, one of which has a type.
const vendorVFIO = `
pci0000:40/0000:40:01.0/0000:41:00.0 driver=nvidia
pci0000:40/0000:40:01.0/0000:41:00.4 driver=nvidia physfn=0000:41:00.0 creatable=1428:NVIDIA_H200X-141C,1414:NVIDIA_H200X-1-18C vgpu=1428
pci0000:40/0000:40:01.0/0000:41:00.5 driver=nvidia physfn=0000:41:00.0 creatable=
`
