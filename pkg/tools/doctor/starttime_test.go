package doctor_test

import "strings"

// startTimeTests tests the check of starttime.go.
func startTimeTests() map[string]map[string]test {
	// 1 TiB
	const hugeBAR = "cpus 0 0\npci0000:00/0000:00:01.0 class=0x060400\n" +
		"pci0000:00/0000:00:01.0/0000:01:00.0 node=0 bar=40"
	muchMemory := func(backing string) string {
		return strings.Replace(domainWith(twoCells+memnodes+backing, uefi, gpu),
			"<memory unit='GiB'>2<", "<memory unit='TiB'>1<", 1)
	}

	return map[string]map[string]test{
		"start-time": {
			"short": {given{
				host: aHost, domain: domainOf(gpu),
			}, []string{"PASS 2 GiB of memory take about 0.5 s to allocate and map"}},
			"BARs, the kernel is not known": {given{host: hugeBAR, domain: domainOf(gpu)}, []string{
				"NOTE 2 GiB of memory take about 0.5 s to allocate and map; 1 TiB of BARs take " +
					"about 32 s to map each time that firmware or guest turn the devices on, or " +
					"no time with Linux 6.15 and QEMU 9.2 on the node (Linux 6.15 on the node " +
					"with QEMU 9.2 or newer, which map BARs by 1 GiB and take no time for it)",
			}},
			"BARs, an old kernel": {given{
				host: "kernel 6.8.0-45-generic\n" + hugeBAR, domain: domainOf(gpu),
			}, []string{
				"NOTE 2 GiB of memory take about 0.5 s to allocate and map; 1 TiB of BARs take " +
					"about 32 s to map each time that firmware or guest turn the devices on, by " +
					"4 KiB with Linux 6.8.0-45-generic unless its distribution changed that " +
					"(Linux 6.15 on the node with QEMU 9.2 or newer, which map BARs by 1 GiB " +
					"and take no time for it)",
			}},
			"BARs, a new kernel": {given{
				host: "kernel 6.17.0\n" + hugeBAR, domain: domainOf(gpu),
			}, []string{
				"PASS 2 GiB of memory take about 0.5 s to allocate and map; 1 TiB of BARs take " +
					"no time to map: Linux 6.17.0 maps them by 1 GiB",
			}},
			"memory": {given{host: aHost, domain: muchMemory("")}, []string{
				"NOTE 1 TiB of memory take about 4 min to allocate and map (hugepages, which " +
					"QEMU allocates with a thread per vCPU)",
			}},
			"hugepages": {given{
				host:   aHost,
				domain: muchMemory("<memoryBacking><hugepages/></memoryBacking><vcpu>64</vcpu>"),
			}, []string{"NOTE 1 TiB of hugepages take about 40 s to allocate and map"}},
			"a vIOMMU": {given{
				host: aHost,
				domain: strings.Replace(
					muchMemory("<memoryBacking><hugepages/></memoryBacking><vcpu>64</vcpu>"),
					"</devices>", nic+intel+"</devices>", 1),
			}, []string{
				"NOTE 1 TiB of hugepages take about 43 s to allocate and map, once for each of the 2 devices that the vIOMMU separates",
			}},
		},
	}
}
