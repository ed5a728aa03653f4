package doctor_test

import (
	"strings"

	"hook-sidecar/pkg/topology/peer"
)

func linkTests() map[string]map[string]test {
	const (
		idle = " (check again under load: an idle GPU lowers its speed to save power; " +
			"otherwise reseat the card or its riser)"
		seat   = " (reseat the card or its riser, and check the slot's bifurcation in the firmware)"
		asRoot = " (" + peer.AsRoot + ")"
		open   = "SV, RR, CR and UF of ACS are not all on, so a switch may deliver requests with " +
			"guest addresses to another device"
		turnOn = " (on the node turn ACS on: in the firmware, without pci=disable_acs_redir and " +
			"without a script that clears it with setpci, as NCCL's page has one for bare " +
			"metal; then reboot)"
		port = "pci0000:00/0000:00:01.0 class=0x060400 "
		card = "\npci0000:00/0000:00:01.0/0000:01:00.0 "
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
			"as Linux sets it": {given{
				host: port + "acs=default" + card + "group=1", domain: domainOf(gpu),
			}, []string{
				"PASS 1 port sends requests up to the IOMMU",
			}},
			"off": {given{
				host: port + "acs=off" + card + "group=1", domain: domainOf(gpu),
			}, []string{
				"WARN " + open + ": 0000:00:01.0" + turnOn,
			}},
			"off by the kernel's arguments": {given{
				host: port + "acs=off" + card + "group=1\narguments iommu=pt " +
					"pci=disable_acs_redir=0000:00:01.0", domain: domainOf(gpu),
			}, []string{
				"WARN " + open + ": 0000:00:01.0" + strings.TrimSuffix(turnOn, ")") +
					"; the node's kernel was started with pci=disable_acs_redir=0000:00:01.0)",
			}},
			// RR alone sends requests up, but not what is answered.
			"RR without CR": {given{
				host: port + "acs=sv,rr,uf" + card + "group=1", domain: domainOf(gpu),
			}, []string{
				"WARN " + open + ": 0000:00:01.0" + turnOn,
			}},
			"egress control": {given{
				host: port + "acs=default,ec" + card + "group=1", domain: domainOf(gpu),
			}, []string{
				"NOTE a vector decides where requests may go (EC of ACS), and nothing reads it: " +
					"0000:00:01.0 (turn EC off: setpci -s PORT ECAP_ACS+6.w=0:20)",
			}},
			"a root port without ACS": {given{
				host: port + "acs=none" + card + "group=1", domain: domainOf(gpu),
			}, []string{
				"PASS 1 port sends requests up to the IOMMU",
			}},
			"not privileged": {given{
				host: port + card + "group=1", domain: domainOf(gpu),
			}, []string{
				"NOTE the ACS of 1 port cannot be read here; the IOMMU groups show what was " +
					"isolated at boot" + asRoot,
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
				host: port + "acs=default" + card +
					"group=1\npci0000:00/0000:00:01.0/0000:01:00.1 group=1",
				domain: domainOf(gpu, audio),
			}, []string{
				"PASS 1 port sends requests up to the IOMMU",
			}},
		},
		"ats": {
			"ready": {given{host: pair("default,dt", "default", "on")}, []string{
				"PASS from 0000:04:00.0 to GPUs under one switch: ready (direct): requests that " +
					"the device has translated go straight through the switch",
			}},
			"as Linux sets it": {given{host: pair("default", "default", "on")}, []string{
				"NOTE from 0000:04:00.0 to GPUs under one switch: through the root complex " +
					"(no-direct-translated): requests go up to the IOMMU, also those that the " +
					"device has translated (boot the host with pci=config_acs=1x111x1@" +
					"0000:03:00.0 (Linux 6.11), or until the next boot run setpci -s PORT " +
					"ECAP_ACS+6.w=40:40 for each port)",
			}},
			"no ATS": {given{host: pair("default", "default", "none")}, []string{
				"NOTE from 0000:04:00.0 to GPUs under one switch: through the root complex " +
					"(no-ats): requests go up to the IOMMU, and the device has no ATS to " +
					"translate them itself (on ConnectX: mlxconfig -d DEVICE set " +
					"ATS_ENABLED=true, then reboot the host)",
			}},
			"ACS off": {given{host: pair("off", "off", "on")}, []string{
				"WARN from 0000:04:00.0 to GPUs under one switch: not ready (not-isolated): " +
					open + turnOn,
			}},
			"TB": {given{host: pair("default,dt,tb", "default", "on")}, []string{
				"WARN from 0000:04:00.0 to GPUs under one switch: not ready " +
					"(translation-blocked): ports block requests that the device has translated " +
					"(TB of ACS) (on the node take out pci=noats, then reboot)",
			}},
			"not privileged": {given{
				host: strings.NewReplacer("acs=default", "", "ats=on", "", "acs=none", "",
					"ats=none", "").Replace(pair("default", "default", "on")),
			}, []string{
				"NOTE from 0000:04:00.0 to GPUs under one switch: unknown (unreadable): ACS and " +
					"ATS cannot be read here, which takes root on the node" + asRoot,
			}},
			"no pair": {given{host: port + card + "ats=none", domain: domainOf(gpu)}, []string{
				"PASS no NIC or drive is under one switch with a GPU",
			}},
		},
		"atomics-path": atomicsTests(),
	}
}

// atomicsTests has hosts with a whole AMD GPU under a switch.
func atomicsTests() map[string]test {
	const look = " (look for PCIe AtomicOps in the node's firmware, or use a slot whose ports pass " +
		"them on; lspci -vv of root shows AtomicOpsCap and AtomicOpsCtl of each port)"
	notKnown := []string{"NOTE whether the host's path has PCIe AtomicOps is not known of " +
		"0000:04:00.0 (" + peer.AsRoot + ")"}
	ends := func(at, why string) []string {
		return []string{"WARN 0000:04:00.0 gets no PCIe AtomicOps in any guest, since 0000:" + at + " " +
			why + look}
	}

	tests := map[string]test{}
	for name, of := range map[string]struct {
		root, up, down, gpu string // each one's AtomicOps
		want                []string
	}{
		"whole": {"atomics=routing,32,64", "atomics=routing", "atomics=routing", "atomics=32,64",
			[]string{"PASS the host's paths of 1 whole AMD GPU have PCIe AtomicOps"}},
		"the GPU lacks them": {"atomics=routing,32,64", "atomics=routing", "atomics=routing",
			"atomics=32", ends("04:00.0", "itself lacks them")},
		"the root port does not complete": {"atomics=routing", "atomics=routing", "atomics=routing",
			"atomics=32,64", ends("00:01.0", "is a root port that does not complete them")},
		"the upstream port does not route": {"atomics=32,64", "atomics=", "atomics=routing",
			"atomics=32,64", ends("02:00.0", "is a port of a switch that does not route them")},
		"the downstream port does not route": {"atomics=32,64", "atomics=routing", "atomics=",
			"atomics=32,64", ends("03:00.0", "is a port of a switch that does not route them")},
		"the upstream port blocks": {"atomics=32,64", "atomics=routing,blocked", "atomics=routing",
			"atomics=32,64", ends("02:00.0", "is a port of a switch that blocks them (EgressBlck)")},
		// Linux asks upstream ports alone.
		"the downstream port blocks": {"atomics=32,64", "atomics=routing", "atomics=routing,blocked",
			"atomics=32,64", []string{"PASS the host's paths of 1 whole AMD GPU have PCIe AtomicOps"}},
		"registers that are not read": {"", "", "", "", notKnown},
		"one that is not read":        {"atomics=32,64", "", "atomics=routing", "atomics=32,64", notKnown},
		"one that is not read, and the end": {"atomics=32,64", "", "atomics=", "atomics=32,64",
			ends("03:00.0", "is a port of a switch that does not route them")},
	} {
		const above = "pci0000:00/0000:00:01.0/0000:02:00.0"
		tests[name] = test{given{host: "pci0000:00/0000:00:01.0 class=0x060400 " + of.root + "\n" +
			above + " class=0x060400 " + of.up + "\n" +
			above + "/0000:03:00.0 class=0x060400 " + of.down + "\n" +
			above + "/0000:03:00.0/0000:04:00.0 class=0x038000 vendor=0x1002 device=0x740f " +
			"driver=vfio-pci " + of.gpu}, of.want}
	}

	return tests
}

// pair is a host with a NIC and a GPU under one switch.
func pair(nicPort, gpuPort, ats string) string {
	const above = "pci0000:00/0000:00:01.0/0000:02:00.0"
	return "cpu x86,ven0002fam0019mod0011\n" +
		"pci0000:00/0000:00:01.0 class=0x060400 vendor=0x1022 acs=default\n" +
		above + " class=0x060400 acs=none\n" +
		above + "/0000:03:00.0 class=0x060400 acs=" + nicPort + "\n" +
		above + "/0000:03:01.0 class=0x060400 acs=" + gpuPort + "\n" +
		above + "/0000:03:00.0/0000:04:00.0 class=0x020700 driver=vfio-pci ats=" + ats + "\n" +
		above + "/0000:03:01.0/0000:05:00.0 driver=vfio-pci ats=none"
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
