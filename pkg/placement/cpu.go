package placement

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// beforeZen begin the names of libvirt's models of AMD's CPUs before Zen (libvirt src/cpu_map,
// x86_Opteron_*.xml, x86_athlon.xml, x86_phenom.xml). The later ones are EPYC.
var beforeZen = []string{"Opteron", "athlon", "phenom"}

// cpuOf returns the CPUs as the consumers of the tree see them: the host's, and where it does not
// show them those of the domain, since KVM gives a guest the host's vendor (QEMU
// target/i386/cpu.c, x86_cpu_load_model). What neither tells counts as Intel's.
func cpuOf(host *topology.Host, d *domain.Domain) topology.CPU {
	amd := topology.CPU{Vendor: topology.CPUVendorAMD}
	isModel := func(prefix string) bool { return strings.HasPrefix(d.CPUModel, prefix) }
	switch {
	case host.CPU.IsKnown():
		return host.CPU
	case slices.ContainsFunc(beforeZen, isModel):
		amd.Family = 0xf // Linux asks whether it is at least 0x17
		return amd
	case isModel("EPYC"), d.CPUVendor == "AMD":
		return amd
	}

	return topology.CPU{}
}
