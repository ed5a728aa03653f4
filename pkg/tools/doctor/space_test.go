package doctor_test

import (
	"fmt"
	"strings"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/tools/doctor"
)

// hostBits sets the physical address bits of the host's CPUs.
func hostBits(bits int) func(*doctor.Inputs) {
	return func(in *doctor.Inputs) { in.HostPhysBits = bits }
}

func spaceTests() map[string]map[string]test {
	const (
		hint    = " (give the guest a host-passthrough CPU, or set mmio-window=auto)"
		ownHint = " (give the guest a host-passthrough CPU, or correct X-PciMmio64Mb in " +
			"qemu:commandline)"
		hostHint = " (set mmio-window=auto)"
		// of AMD
		port = "\npci0000:00/0000:00:01.0 class=0x060400 vendor=0x1022"
		// 128 GiB
		radeon = "cpus 0 0-3\ncpus 1 4-7\npci0000:00/0000:00:01.0/0000:01:00.0 node=0 " +
			"class=0x030000 vendor=0x1002 device=0x744c"
		large   = "cpus 0 0" + port + "\npci0000:00/0000:00:01.0/0000:01:00.0 node=0 bar=37"
		larger  = "cpus 0 0" + port + "\npci0000:00/0000:00:01.0/0000:01:00.0 node=0 bar=38"
		plainOf = "<cpu mode='custom'><numa><cell id='0' cpus='0-1' memory='1' unit='GiB'/>" +
			"</numa></cpu><numatune><memnode cellid='0' mode='strict' nodeset='0'/></numatune>"
	)

	with := func(maxphysaddr string) string {
		return domainWith(strings.Replace(twoCells, "<numa>", maxphysaddr+"<numa>", 1)+memnodes,
			uefi, gpu)
	}

	// A named CPU model on an upstream QEMU machine has 40 bits.
	versioned := func(domain string) string {
		return strings.Replace(domain, "machine='q35'", "machine='pc-q35-9.2'", 1)
	}

	plain := func(os string) string { return versioned(domainWith(plainOf, os, gpu)) }
	window := strings.Replace(domainWith(plainOf+
		"<qemu:commandline><qemu:arg value='-fw_cfg'/>"+
		"<qemu:arg value='name=opt/ovmf/X-PciMmio64Mb,string=262144'/></qemu:commandline>", uefi,
		gpu),
		"<domain ", "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' ", 1)

	reserved := func(bytes, os string) string {
		return strings.Replace(strings.Replace(domainWith(
			"<cpu mode='host-passthrough'/><qemu:commandline><qemu:arg value='-global'/>"+
				"<qemu:arg value='pcie-root-port.pref64-reserve="+bytes+"'/></qemu:commandline>",
			os, gpu), "<devices>", "<devices>"+freePort, 1),
			"<domain ", "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' ", 1)
	}

	const linked = `<controller type='pci' index='1' model='pcie-root-port'/>
<controller type='pci' index='2' model='pcie-switch-upstream-port'><address type='pci' bus='1'/></controller>
<controller type='pci' index='3' model='pcie-switch-downstream-port'><address type='pci' bus='2'/></controller>`

	onRootBus := strings.Replace(gpu, "</hostdev>",
		"<address type='pci' bus='0' slot='5'/></hostdev>", 1)
	under := strings.Replace(gpu, "</hostdev>", "<address type='pci' bus='3'/></hostdev>", 1)
	override := "<qemu:override>"
	for alias, driver := range map[string]string{
		"pci.2": "cxl-upstream", "pci.3": "cxl-downstream",
	} {
		override += fmt.Sprintf(
			"<qemu:device alias='%s'><qemu:frontend>"+
				"<qemu:property name='driver' type='string' value='%s'/></qemu:frontend>"+
				"</qemu:device>", alias, driver)
	}

	links := strings.Replace(domainWith("<cpu mode='host-passthrough'/>"+override+
		"</qemu:override>", uefi, linked, under), "<domain ",
		"<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' ", 1)

	return map[string]map[string]test{
		// Measured: 40 bits give OVMF a window of 128 GiB, which one BAR of that size
		// fills, so that it has no room for the ports that KubeVirt will add; an eighth of
		// 46 bits is 8 TiB.
		"bar-window": {
			// 1 MiB more per bridge with a port's BAR on its bus: root and upstream port.
			"links of switch ports": {given{
				host:   "cpus 0 0" + port + "\npci0000:00/0000:00:01.0/0000:01:00.0 node=0",
				domain: links,
				inputs: hostBits(46),
			}, []string{
				"PASS 64-bit BARs of 16 MiB, the window has 8 TiB: OVMF, an eighth of 46 bits " +
					"of the host",
				"PASS below 4 GiB BARs and hotplug take 4 MiB, 2 MiB of it for switch ports " +
					"with a link, the window has 768 MiB",
			}},
			"fills it": {given{host: large, domain: plain(uefi)}, []string{
				"FAIL 64-bit BARs of 128 GiB take 256 GiB with alignment and hotplug ports, the " +
					"window has 128 GiB: OVMF, an eighth of 40 bits of the CPU model" + hint,
			}},
			"too large": {given{host: larger, domain: plain(uefi)}, []string{
				"FAIL 64-bit BARs of 256 GiB take 512 GiB with alignment and hotplug ports, the " +
					"window has 128 GiB: OVMF, an eighth of 40 bits of the CPU model" + hint,
			}},
			// 32 MiB more than the window: what is needed is rounded up.
			"a little too large": {given{host: large + ",25", domain: plain(uefi)}, []string{
				"FAIL 64-bit BARs of 128.1 GiB take 256.1 GiB with alignment and hotplug ports, " +
					"the window has 128 GiB: OVMF, an eighth of 40 bits of the CPU model" + hint,
			}},
			"the host's bits, too few": {given{
				host: large + ",25", domain: domainOf(gpu), inputs: hostBits(40),
			}, []string{
				"FAIL 64-bit BARs of 128.1 GiB take 256.1 GiB with alignment and hotplug ports, " +
					"the window has 128 GiB: OVMF, an eighth of 40 bits of the host" + hostHint,
			}},
			"the host's bits": {given{
				host: large, domain: domainOf(gpu), inputs: hostBits(52),
			}, []string{
				"PASS 64-bit BARs of 128 GiB, the window has 8 TiB: OVMF, an eighth of 46 bits " +
					"of the host",
			}},
			"bits of the domain": {given{
				host: large, domain: with("<maxphysaddr mode='emulate' bits='39'/>"),
			}, []string{
				"FAIL 64-bit BARs of 128 GiB take 256 GiB with alignment and hotplug ports, the " +
					"window has 64 GiB: OVMF, an eighth of 39 bits of maxphysaddr" + hint,
			}},
			"a limit on the host's": {given{
				host:   large,
				domain: with("<maxphysaddr mode='passthrough' limit='39'/>"),
				inputs: hostBits(46),
			}, []string{
				"FAIL 64-bit BARs of 128 GiB take 256 GiB with alignment and hotplug ports, the " +
					"window has 64 GiB: OVMF, an eighth of 39 bits of the host" + hostHint,
			}},
			"a larger window": {given{
				host: larger, domain: strings.Replace(window, "262144", "524288", 1),
			}, []string{
				"PASS 64-bit BARs of 256 GiB, the window has 512 GiB: OVMF, X-PciMmio64Mb",
			}},
			"SeaBIOS": {given{host: larger, domain: plain("")}, []string{
				"PASS 64-bit BARs of 256 GiB, the window has 768 GiB: SeaBIOS, 40 bits of the " +
					"CPU model less the guest's memory",
			}},
			// Measured: the memory's 4 GiB cost the one BAR of 256 GiB that begins there.
			"SeaBIOS, and too large": {given{
				host:   "cpus 0 0" + port + "\npci0000:00/0000:00:01.0/0000:01:00.0 node=0 bar=40",
				domain: plain(""),
			}, []string{
				"FAIL 64-bit BARs of 1 TiB, the window has 0 bytes: SeaBIOS, 40 bits of the CPU " +
					"model less the guest's memory (give the guest a host-passthrough CPU)",
			}},
			"SeaBIOS, more bits than it uses": {given{
				host: large, domain: domainWith(twoCells+memnodes, "", gpu), inputs: hostBits(52),
			}, []string{
				"PASS 64-bit BARs of 128 GiB, the window has 15.8 TiB: SeaBIOS, 44 bits of the " +
					"host less the guest's memory",
			}},
			"SeaBIOS, all bits with much memory": {given{
				host: large,
				domain: strings.Replace(domainWith(twoCells+memnodes, "", gpu),
					"<memory unit='GiB'>2<", "<memory unit='TiB'>2<", 1),
				inputs: hostBits(46),
			}, []string{
				"PASS 64-bit BARs of 128 GiB, the window has 61.8 TiB: SeaBIOS, 46 bits of the " +
					"host less the guest's memory",
			}},
			// Measured: a port that can hotplug has a 256th of OVMF's window, before the BAR.
			"a port beside it": {given{
				host:   large,
				domain: strings.Replace(plain(uefi), "<devices>", "<devices>"+freePort, 1),
			}, []string{
				"FAIL 64-bit BARs of 128 GiB take 256 GiB with alignment and hotplug ports, the " +
					"window has 128 GiB: OVMF, an eighth of 40 bits of the CPU model" + hint,
			}},
			// 8 ports: the GPU's, a free one and those that KubeVirt adds.
			"a reserve of each port": {given{
				host: large, domain: reserved("1T", uefi), inputs: hostBits(44),
			}, []string{
				"FAIL 64-bit BARs of 128 GiB take 8.2 TiB with alignment and hotplug ports, the " +
					"window has 2 TiB: OVMF, an eighth of 44 bits of the host " +
					"(lower pref64-reserve of the root ports)",
			}},
			"a reserve of each port, SeaBIOS": {given{
				host: large, domain: reserved("0x80000000000", ""), inputs: hostBits(44),
			}, []string{
				"FAIL 64-bit BARs of 128 GiB take 64 TiB with alignment and hotplug ports, the " +
					"window has 15.8 TiB: SeaBIOS, 44 bits of the host less the guest's memory " +
					"(lower pref64-reserve of the root ports)",
			}},
			// Measured: OVMF takes 40 bits of an Intel CPU for QEMU's default.
			"40 bits of Intel": {given{
				host: strings.Replace(large, "0x1022", "0x8086", 1), domain: plain(uefi),
			}, []string{
				"FAIL 64-bit BARs of 128 GiB, the window has 32 GiB: OVMF, its default, since " +
					"it does not trust 40 bits of an Intel CPU" + hint,
			}},
			// The address space has 1 TiB, and the memory is in its first half.
			"a window beyond the address space": {given{
				host: large, domain: versioned(strings.Replace(window, "262144", "1048576", 1)),
			}, []string{
				"FAIL 64-bit BARs of 128 GiB, the window has 0 bytes: OVMF, X-PciMmio64Mb, " +
					"which is beyond 40 bits of the CPU model" + ownHint,
			}},
			"a window that OVMF ignores": {given{
				host: large, domain: versioned(strings.Replace(window, "262144", "33554432", 1)),
			}, []string{
				"FAIL 64-bit BARs of 128 GiB take 256 GiB with alignment and hotplug ports, the " +
					"window has 128 GiB: OVMF, an eighth of 40 bits of the CPU model" + ownHint,
			}},
			// Its BAR is the first of the root bus, and the part of the expander buses begins at
			// the next multiple of 128 GiB.
			"the balloon that libvirt adds": {given{
				host: large, domain: strings.Replace(strings.Replace(plain(uefi), "pc-q35-9.2", "q35", 1),
					noBalloon, "", 1),
				inputs: hostBits(46),
			}, []string{
				"NOTE 64-bit BARs of 128 GiB; the guest's physical address bits are not known " +
					"(a host-passthrough CPU has the host's bits; OVMF's window is an eighth of " +
					"the address space, so 42 bits are enough)",
			}},
			// No eighth is left above 480 GiB of memory.
			"memory in the window": {given{
				host: large,
				domain: strings.Replace(with("<maxphysaddr mode='emulate' bits='39'/>"),
					"<memory unit='GiB'>2<", "<memory unit='GiB'>470<", 1),
			}, []string{
				"FAIL 64-bit BARs of 128 GiB, the window has 32 GiB: OVMF, its default" + hint,
			}},
			// 3 * (64 GiB + 32 MiB): the two functions of a slot take the first 128 GiB and
			// 64 MiB, so the third begins at 192 GiB, and the ports that KubeVirt will add
			// at 256 GiB.
			"aligned": {given{
				host: alignedHost,
				domain: strings.Replace(with("<maxphysaddr mode='emulate' bits='41'/>"), gpu,
					gpu+audio+nic, 1),
			}, []string{
				"FAIL 64-bit BARs of 192.1 GiB take 320.1 GiB with alignment and hotplug ports, " +
					"the window has 256 GiB: OVMF, an eighth of 41 bits of maxphysaddr" + hint,
			}},
			"of Red Hat's machines": {given{
				host:   large,
				domain: strings.Replace(plain(uefi), "pc-q35-9.2", "pc-q35-rhel9.6.0", 1),
				inputs: hostBits(46),
			}, []string{
				"PASS 64-bit BARs of 128 GiB, the window has 8 TiB: OVMF, an eighth of 46 bits " +
					"of the host",
			}},
			"of QEMU's choice": {given{
				host:   large,
				domain: strings.Replace(plain(uefi), "pc-q35-9.2", "q35", 1),
				inputs: hostBits(46),
			}, []string{
				"NOTE 64-bit BARs of 128 GiB; the guest's physical address bits are not known " +
					"(a host-passthrough CPU has the host's bits; OVMF's window is an eighth of " +
					"the address space, so 41 bits are enough)",
			}},
			"not known": {given{host: large, domain: domainOf(gpu)}, []string{
				"NOTE 64-bit BARs of 128 GiB; the guest's physical address bits are not known " +
					"(a host-passthrough CPU has the host's bits; OVMF's window is an eighth of " +
					"the address space, so 41 bits are enough)",
			}},
		},
		"atomics": {
			"alone on a root port": {given{host: radeon, domain: domainOf(gpu)}, []string{
				"PASS 1 whole AMD GPU alone on a root port, as QEMU's PCIe AtomicOps need it",
			}},
			"on the root bus": {given{
				host: radeon, domain: domainOf(onRootBus),
				vmi: vmi("", `"kubevirt.io/placePCIDevicesOnRootComplex":"true"`),
			}, []string{
				"WARN no PCIe AtomicOps for 0000:01:00.0, under no root port: HIP refuses kernels " +
					"that print or assert, and RCCL's collectives fail (" +
					findings.Remedy("atomics-lost") + ")",
			}},
			"no AMD GPU": {given{host: aHost, domain: domainOf(gpu)}, nil},
		},
		"port-speed": {
			"set": {given{host: aHost, domain: domainOf(gpu), inputs: func(in *doctor.Inputs) {
				in.PortHelp, in.Policy.PortSpeed = "  x-speed=<PCIELinkSpeed>", "host"
			}}, []string{
				"PASS the QEMU of this VM has switch ports with a link, and port-speed is host",
			}},
			"off": {given{host: aHost, domain: domainOf(gpu), inputs: func(in *doctor.Inputs) {
				in.PortHelp = "  x-speed=<PCIELinkSpeed>"
			}}, []string{
				"NOTE the QEMU of this VM has switch ports with a link, and port-speed is off (to show " +
					"every consumer the host's switches, set --port-speed=host in the arguments of " +
					"the hook, for a cluster whose launchers are all of this image)",
			}},
			"QEMU 9.1": {given{host: aHost, domain: domainOf(gpu), inputs: func(in *doctor.Inputs) {
				in.PortHelp = "  sn=<uint64>"
			}}, []string{
				"NOTE the QEMU of this VM has no switch ports with a link (leave port-speed off in " +
					"this cluster until its KubeVirt has QEMU 10.0; 1.8 has 10.1)",
			}},
			"not asked": {given{host: aHost, domain: domainOf(gpu)}, nil},
		},
		"answer-kept": {
			"two Plugins": {given{host: aHost, domain: domainOf(gpu), inputs: func(in *doctor.Inputs) {
				in.Lost = &doctor.Lost{
					Keys:    []policy.Key{policy.KeyNCCLTopology, policy.KeyPortSpeed},
					Plugins: []string{"hostdev", "metrics"},
				}
			}}, []string{
				"WARN the running domain lacks what the hook writes for nccl-topology and port-speed " +
					"(run the hook as the plugin (docs/install.md#as-a-structured-plugin), or leave " +
					"nccl-topology and port-speed out: while Plugins hostdev, metrics are in the " +
					"cluster, KubeVirt drops from a sidecar's answer what the keys write)",
			}},
			"all kept": {given{host: aHost, domain: domainOf(gpu), inputs: func(in *doctor.Inputs) {
				in.Lost = &doctor.Lost{}
			}}, []string{"PASS the running domain has all that the hook writes for its keys"}},
			"no hook in the pod": {given{host: aHost, domain: domainOf(gpu)}, nil},
		},
		"io-space": {
			"14 ports": {given{host: ioHost(14), domain: ioDomain(14, "")}, []string{
				"PASS 14 devices with an I/O BAR, SeaBIOS has room for 14 ports with one",
			}},
			// Measured: with 15 such ports SeaBIOS stops.
			"15 ports": {given{host: ioHost(15), domain: ioDomain(15, "")}, []string{
				"FAIL 15 ports have a device with an I/O BAR under them and the domain boots " +
					"with SeaBIOS, which has room for 14 (" + findings.Remedy("io-space") + ")",
			}},
			// Measured: of 10 such devices OVMF leaves one without any BAR.
			"9 ports and UEFI": {given{host: ioHost(9), domain: ioDomain(9, uefi)}, []string{
				"PASS 9 devices with an I/O BAR, UEFI has room for 9 ports with one",
			}},
			"10 ports and UEFI": {given{host: ioHost(10), domain: ioDomain(10, uefi)}, []string{
				"FAIL 10 ports have a device with an I/O BAR under them and the domain boots " +
					"with UEFI, which has room for 9 (boot with SeaBIOS, which has room for 14)",
			}},
			"15 ports and UEFI": {given{host: ioHost(15), domain: ioDomain(15, uefi)}, []string{
				"FAIL 15 ports have a device with an I/O BAR under them and the domain boots " +
					"with UEFI, which has room for 9 (pass fewer of them through)",
			}},
		},
		"pci-hole": {
			"there": {given{host: aHost, domain: domainOf(gpu)}, []string{"PASS not disabled"}},
			"off, and the device on an expander bus": {given{
				host: aHost, domain: domainOf(gpu, holeOff),
			}, []string{
				"NOTE pcihole64 is 0; the devices are under expander buses, whose windows it " +
					"does not size (remove the annotation kubevirt.io/disablePCIHole64 from " +
					"the VMI)",
			}},
			"off, and the device on the root bus": {given{
				host: aHost, domain: domainWith("", uefi, gpu, holeOff),
			}, []string{
				"WARN pcihole64 is 0, and devices with 64-bit BARs are on the root bus: " +
					"0000:01:00.0 (remove the annotation kubevirt.io/disablePCIHole64 from the VMI)",
			}},
		},
	}
}

const freePort = "<controller type='pci' index='0' model='pcie-root'/>" +
	"<controller type='pci' index='1' model='pcie-root-port'/>"

const holeOff = "<controller type='pci' index='0' model='pcie-root'>" +
	"<pcihole64 unit='KiB'>0</pcihole64></controller>"

// alignedHost has three functions with BARs of 64 GiB and 32 MiB in two slots. A
// slot's window begins at a multiple of 64 GiB, so that the 32 MiB cost the next
// one 64.
const alignedHost = `
cpus 0 0
pci0000:00/0000:00:01.0/0000:01:00.0 node=0 bar=36,25
pci0000:00/0000:00:01.0/0000:01:00.1 node=0 bar=36,25
pci0000:00/0000:00:02.0/0000:02:00.0 node=0 bar=36,25
`

// ioHost returns a host with n devices with an I/O BAR, each under its own root port.
func ioHost(n int) string {
	var b strings.Builder
	b.WriteString("cpus 0 0\n")
	for i := range n {
		fmt.Fprintf(&b, "pci0000:00/0000:00:%02x.0/0000:%02x:00.0 node=0 io\n", i+1, i+1)
	}

	return b.String()
}

func ioDomain(n int, os string) string {
	var hostdevs []string
	for i := range n {
		hostdevs = append(hostdevs,
			strings.Replace(strings.Replace(gpu, "bus='0x01'", fmt.Sprintf("bus='0x%02x'", i+1), 1),
				"ua-gpu-one", fmt.Sprintf("ua-gpu-%d", i), 1))
	}

	return domainWith(twoCells+memnodes, os, hostdevs...)
}

func containerTests() map[string]map[string]test {
	const raise = " (raise it with supportContainerResources of type sidecar in the KubeVirt CR)"
	sockets := func(s doctor.Sockets) func(*doctor.Inputs) {
		s.Dir = "/sockets"
		return func(in *doctor.Inputs) { in.Sockets = &s }
	}

	limits := func(l doctor.Limits) func(*doctor.Inputs) {
		return func(in *doctor.Inputs) { in.Limits = &l }
	}

	file := func(path string) doctor.SocketFile {
		return doctor.SocketFile{Path: path, Socket: true, Answers: true}
	}

	const named = " (give each sidecar a socket name of its own; hook-sidecar takes it from " +
		"CONTAINER_NAME)"
	return map[string]map[string]test{
		"socket-folder": {
			"empty": {given{
				inputs: sockets(doctor.Sockets{}),
			}, []string{"PASS /sockets with 0 sockets"}},
			"served": {given{
				inputs: sockets(doctor.Sockets{Files: []doctor.SocketFile{file("a.sock")}}),
			}, []string{"PASS /sockets with 1 socket"}},
			"missing": {given{
				inputs: sockets(doctor.Sockets{Missing: true}),
			}, []string{
				"NOTE /sockets does not exist here (run doctor in the sidecar, or pass its " +
					"directory with --socket-dir)",
			}},
			"not writable": {given{
				inputs: sockets(doctor.Sockets{
					Problem: "no socket can be made in /sockets: permission denied",
				}),
			}, []string{
				"FAIL no socket can be made in /sockets: permission denied (mount the sidecars' " +
					"emptyDir there, writable for the container's user)",
			}},
			"a file": {given{
				inputs: sockets(doctor.Sockets{Files: []doctor.SocketFile{{Path: "log.txt"}}}),
			}, []string{
				"FAIL log.txt in /sockets is not a socket (remove it: virt-launcher dials every " +
					"file there and waits)",
			}},
			"a dead socket": {given{
				inputs: sockets(doctor.Sockets{
					Files: []doctor.SocketFile{{Path: "old.sock", Socket: true}},
				}),
			}, []string{
				"WARN no process answers on the socket old.sock in /sockets (find " +
					"out why its sidecar does not answer; remove it if there is none)",
			}},
		},
		"socket-name": {
			"free": {given{
				inputs: sockets(doctor.Sockets{Name: "hostdev-a.sock"}),
			}, []string{"PASS hostdev-a.sock is free"}},
			"served": {given{
				inputs: sockets(doctor.Sockets{
					Name: "hostdev-a.sock", Files: []doctor.SocketFile{file("hostdev-a.sock")},
				}),
			}, []string{
				"PASS hostdev-a.sock is already served",
			}},
			"twice in the pod": {given{
				inputs: sockets(doctor.Sockets{
					Name: "hostdev-a.sock",
					Files: []doctor.SocketFile{
						file("hook-sidecar-0/shim.sock"), file("hook-sidecar-1/shim.sock"),
					},
				}),
			}, []string{
				"FAIL hook-sidecar-0/shim.sock and hook-sidecar-1/shim.sock have the same name: " +
					"virt-launcher calls only the first" + named,
			}},
			"no name": {given{inputs: sockets(doctor.Sockets{})}, []string{
				"NOTE CONTAINER_NAME is not set: the socket's name gets a random part (KubeVirt " +
					"sets CONTAINER_NAME since 1.6)",
			}},
			"too long": {given{
				inputs: sockets(doctor.Sockets{Name: "hostdev-a.sock", TooLong: true}),
			}, []string{
				"FAIL the path of hostdev-a.sock in /sockets is too long for a unix socket " +
					"(shorten --socket-dir)",
			}},
		},
		"container-memory": {
			"none": {given{inputs: limits(doctor.Limits{})}, []string{"PASS no limit"}},
			"KubeVirt's": {given{
				inputs: limits(doctor.Limits{MemoryBytes: 64_000_000}),
			}, []string{"PASS the limit is 61 MiB"}},
			"scarce": {given{
				inputs: limits(doctor.Limits{MemoryBytes: 32 << 20}),
			}, []string{"WARN the limit is 32 MiB, 48 MiB are always enough" + raise}},
			"much too low": {given{
				inputs: limits(doctor.Limits{MemoryBytes: 16 << 20}),
			}, []string{"FAIL the limit is 16 MiB, the server needs up to 24 MiB" + raise}},
		},
		"container-cpu": {
			"none": {given{inputs: limits(doctor.Limits{})}, []string{"PASS no limit"}},
			"KubeVirt's": {given{
				inputs: limits(doctor.Limits{MilliCPU: 200}),
			}, []string{"PASS the limit is 200m"}},
			"scarce": {given{
				inputs: limits(doctor.Limits{MilliCPU: 60}),
			}, []string{"WARN the limit is 60m, 100m are always enough" + raise}},
			"much too low": {given{
				inputs: limits(doctor.Limits{MilliCPU: 10}),
			}, []string{"FAIL the limit is 10m, the server needs up to 50m" + raise}},
		},
	}
}
