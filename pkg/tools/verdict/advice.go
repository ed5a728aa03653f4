package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// advise lists what the guest's user can do, and what to send.
func (v *Verdict) advise() {
	if len(v.gpus) == 0 {
		return
	}

	v.adviseDrivers()
	if v.broken < len(v.gpus) {
		v.adviseNICs()
		v.adviseDirect()
		v.advisePeers()
		v.adviseFile()
		v.adviseUCX()
		v.adviseCPUs()
		v.setVariables()
	}

	v.Send = v.send()
}

func (v *Verdict) step(what string, lines ...string) {
	v.Steps = append(v.Steps, Step{what, lines})
}

// adviseNICs leaves out NICs that are near no GPU (NCCL's documentation, "Environment Variables").
func (v *Verdict) adviseNICs() {
	named := slices.DeleteFunc(slices.Clone(v.nics), func(d *topology.Function) bool {
		return !isDriverName(v.guest.Names[d.Address])
	})
	near := v.near(named)
	var names, others []string
	for _, d := range named {
		if name := v.guest.Names[d.Address]; near[d] {
			names = append(names, name)
		} else {
			others = append(others, name)
		}
	}

	// With all NICs the variable does nothing.
	if len(names) > 0 && len(others) > 0 {
		v.step(fmt.Sprintf("Let NCCL use the NICs that are near a GPU, so not %s, which may be "+
			"those of storage or of the front end:", words.FirstOf(others, 4, ", ")),
			"export NCCL_IB_HCA='"+hcaList(names)+"'")
	}
}

// adviseDirect says what GPUDirect RDMA needs besides a tree, and lets NCCL use it farther than its
// default (NCCL's documentation, "Environment Variables").
func (v *Verdict) adviseDirect() {
	works := v.judged - v.broken
	if works <= 0 {
		return
	}

	needs := "nvidia-peermem, or DMA-BUF of NVIDIA's open kernel modules (license: Dual MIT/GPL) " +
		"with Linux 5.12"
	look := "lsmod | grep nvidia_peermem; modinfo nvidia | grep license; uname -r"
	tests := "nccl-tests"
	if v.isAMD() {
		needs, look = "DMA-BUF of the kernel or of amdgpu-dkms", "modinfo amdgpu | head; uname -r"
		tests = "rccl-tests"
	}

	// GPUs whose own NIC does not work are left out: what is wrong there is the NIC, not its
	// distance.
	isFar := v.direct+v.robbed < works
	proof := "."
	switch {
	case isFar:
		v.step("GPUDirect RDMA counts only between VMs: within one, GPUs use NVLink, XGMI or PCIe. "+
			"Measure between two VMs with "+tests+" (built with MPI=1), before and after each step. "+
			"Lines with GDRDMA show that it is used. mpirun passes a variable on with -x NAME:",
			fmt.Sprintf("mpirun -np 2 -H VM1,VM2 -x NCCL_DEBUG=INFO ./all_reduce_perf -b 8M -e 8G "+
				"-f 2 -g %d", len(v.workingGPUs())))
	case v.Outcome == Unknown:
		return
	default:
		proof = "; lines with GDRDMA of a job on two VMs with NCCL_DEBUG=INFO show that it is used."
	}

	v.step("GPUDirect RDMA also needs "+needs+proof+" To see what this VM has:", look)
	if isFar {
		v.step("Let NCCL use GPUDirect RDMA although no switch is shown. Where GPU and NIC are near "+
			"on the host it may be as fast as there; where they are not, slower:",
			"export NCCL_NET_GDR_LEVEL="+v.directLevel())
	}
}

// adviseDrivers binds devices to the drivers of their vendors, until the next boot
// (Documentation/ABI/testing/sysfs-bus-pci: driver_override, unbind, drivers_probe). A device leaves
// its driver only if there is another, and before that is loaded: NVIDIA's does not load where it
// finds no device that is free (open-gpu-kernel-modules kernel-open/nvidia/nv.c, nv_module_init).
func (v *Verdict) adviseDrivers() {
	byDriver := map[string][]string{}
	for _, f := range v.faults {
		if f.bind != nil && paste.HasAddress(f.bind.Address) {
			driver := driverOf(f.bind)
			byDriver[driver] = append(byDriver[driver], f.bind.Address.String())
		}
	}

	for _, driver := range slices.Sorted(maps.Keys(byDriver)) {
		devices := strings.Join(byDriver[driver], " ")
		free := fmt.Sprintf("for d in %s; do p=/sys/bus/pci/devices/$d; echo %s | sudo tee "+
			"$p/driver_override; echo $d | sudo tee $p/driver/unbind; done; ", devices, driver)
		probe := fmt.Sprintf("for d in %s; do echo $d | sudo tee /sys/bus/pci/drivers_probe; done",
			devices)
		command := free + probe // an empty override leaves the choice to the kernel
		if driver != "" {
			command = fmt.Sprintf("modinfo %s > /dev/null && { %ssudo modprobe %[1]s; %[3]s; }", driver,
				free, probe)
		}

		v.step(fmt.Sprintf("Bind %s to %s until the next boot (needs root in the VM, and the driver "+
			"installed). Then run this command again:",
			words.Counted(len(byDriver[driver]), "device"), cmp.Or(driver, "that of the vendor")),
			command)
	}
}

// isAMD reports whether one of the GPUs is AMD's.
func (v *Verdict) isAMD() bool {
	return slices.ContainsFunc(v.gpus, func(d *topology.Function) bool {
		return d.Vendor == topology.VendorAMDGPU
	})
}

// near reports which NICs are the nearest of some GPU. A NIC to which a path is not in the text
// counts as near. A GPU that goes over NVLink to the NIC of another GPU has no near one itself.
func (v *Verdict) near(nics []*topology.Function) map[*topology.Function]bool {
	near := map[*topology.Function]bool{}
	if len(nics) == 0 {
		return near
	}

	for i, gpu := range v.gpus {
		path := v.GPUs[i].Path
		isOverNVLink := path != nil && *path == ncclgraph.PXN.String()
		_, nearest := v.nearest(gpu)
		for _, nic := range nics {
			between, isKnown := v.guest.PathType(gpu.Address, nic.Address)
			near[nic] = near[nic] || !isKnown || !isOverNVLink && ncclTypes[between] == nearest
		}
	}

	return near
}

// directLevel returns how far NCCL has to use GPUDirect RDMA so that some more GPUs do: not to
// another NUMA node unless no GPU has a NIC on its own.
func (v *Verdict) directLevel() string {
	if slices.ContainsFunc(v.GPUs, func(g GPU) bool {
		return g.Path != nil && *g.Path == ncclgraph.PHB.String()
	}) {
		return ncclgraph.PHB.String()
	}
	return ncclgraph.SYS.String()
}

// isDriverName reports whether a name is that of a NIC's driver: nvidia-smi's NIC0 and NET0 of
// NCCL's log are not.
func isDriverName(name string) bool {
	return name != "" && !strings.HasPrefix(name, "NIC") && !strings.HasPrefix(name, "NET")
}

// hcaList writes names for NCCL_IB_HCA, which takes them for beginnings unless "=" precedes them.
func hcaList(names []string) string { return "=" + strings.Join(names, ",") }

// peerWords are nvidia-smi's words for peer access, with its legend (nvidia-smi topo -p2p -h).
var peerWords = map[string]string{
	"OK": "allowed", "CNS": "chipset not supported", "GNS": "GPU not supported",
	"TNS": "topology not supported", "NS": "not supported", "DR": "disabled by a registry key",
	"U": "unknown",
}

// notePeers says which GPUs the driver lets access each other's memory.
func (v *Verdict) notePeers() {
	if len(v.guest.Peers) == 0 {
		return
	}

	var said []string
	for _, word := range slices.Sorted(maps.Keys(peerWords)) {
		if n := v.peersWith(word); n > 0 {
			said = append(said, fmt.Sprintf("%s (%s) %d", word, peerWords[word], n))
		}
	}

	v.Notes = append(v.Notes, fmt.Sprintf("peer access of %s of GPUs: %s",
		words.Counted(len(v.guest.Peers), "pair"), strings.Join(said, ", ")))
}

// peersWith counts the pairs of GPUs for which the driver says a word about peer access.
func (v *Verdict) peersWith(word string) (n int) {
	for _, said := range v.guest.Peers {
		if said == word {
			n++
		}
	}

	return n
}

// advisePeers lets NCCL use peer access farther than its default, where the driver allows it.
func (v *Verdict) advisePeers() {
	between := v.Relations[0]
	if v.peersWith("OK") > 0 && !v.isJoined() && between.PHB+between.NODE+between.SYS > 0 {
		v.step("The driver allows peer access between GPUs, but NCCL uses it up to PXB. Prove "+
			"that data arrive with nccl-tests and -c 1:", "export NCCL_P2P_LEVEL=SYS")
	}
}

// adviseFile names the topology file that NCCL can read.
func (v *Verdict) adviseFile() {
	isWorse := v.host != nil && v.direct < v.Host.could
	if _, err := v.TopologyFile(); err != nil || !isWorse && !v.Limited {
		return
	}

	command := "hook-sidecar guest FILE"
	if v.host != nil {
		command += " --host HOST-FILE"
	}

	v.step("Show NCCL the topology in a file. It is true until the VM is moved or restarted:",
		command+" -o nccl --output-file topo.xml", "export NCCL_TOPO_FILE=$PWD/topo.xml")
}

// adviseUCX lets UCX take a NIC on the PCIe root of a GPU. Without a switch it takes one on another root
// of the node, by what it assumes of both paths (pkg/consumers/ucx.go); the variable raises the first
// (openucx/ucx src/ucs/sys/topo/base/topo.c).
func (v *Verdict) adviseUCX() {
	i := slices.IndexFunc(v.Consumers, func(c Consumer) bool { return c.Consumer == consumers.UCX })
	if i < 0 || v.Consumers[i].No <= v.broken {
		return
	}

	v.step(fmt.Sprintf("Let UCX (NIXL, Dynamo, Open MPI, MPICH) take the NIC beside a GPU, which it "+
		"does not for %d of %s, since no switch is shown. From UCX 1.18 on:",
		v.Consumers[i].No-v.broken, words.Counted(len(v.gpus), "GPU")),
		"export UCX_DISTANCE_BW=auto,phb:48GBs")
}

// setVariables fills in which variables the steps set for each consumer.
func (v *Verdict) setVariables() {
	for _, step := range v.Steps {
		for _, line := range step.Text {
			variable, isSet := strings.CutPrefix(line, "export ")
			program, _, _ := strings.Cut(variable, "_")
			for i := range v.Consumers {
				if row := &v.Consumers[i]; isSet && row.Consumer == program {
					row.Set = append(row.Set, variable)
				}
			}
		}
	}
}

// adviseCPUs binds each process to the CPUs and memory of its GPU; where the NUMA nodes are not
// known, to the CPUs.
func (v *Verdict) adviseCPUs() {
	gpus := v.workingGPUs()
	nodes, hasNodes := valuesOf(gpus, func(g GPU) *int { return g.Node })
	cpus, hasCPUs := valuesOf(gpus, func(g GPU) *string { return g.CPUs })
	var values []string
	var what, run string
	switch {
	// On the only node of a guest there is nothing to bind to.
	case hasNodes && (areSeveral(nodes) || len(v.guest.NUMA) > 1):
		values, what, run = nodes, "CPUs and memory", "numactl -N $i -m $i"
	case !hasNodes && hasCPUs && areSeveral(cpus):
		values, what, run = cpus, "CPUs", "taskset -c $i"
	default:
		return
	}

	// The list is in the order of addresses, and CUDA numbers the fastest GPU first unless this
	// is set (CUDA C++ Programming Guide, "CUDA Environment Variables").
	order := "export CUDA_DEVICE_ORDER=PCI_BUS_ID; "
	if v.isAMD() {
		order = ""
	}

	bind := func(rank string) string {
		return fmt.Sprintf(`bash -c '%sn=(%s); i=${n[$%s]}; exec %s "$@"' -`,
			order, strings.Join(values, " "), rank, run)
	}

	v.step(fmt.Sprintf("Run each process on the %s of its GPU, if process i uses GPU i:", what),
		fmt.Sprintf("torchrun --nproc-per-node %d --no-python %s python train.py", len(gpus),
			bind("LOCAL_RANK")),
		fmt.Sprintf("mpirun -np %d --bind-to none %s ./all_reduce_perf -b 8M -e 8G -f 2",
			len(gpus), bind("OMPI_COMM_WORLD_LOCAL_RANK")))
}

// workingGPUs returns the GPUs that a program can use: CUDA and HIP number no others.
func (v *Verdict) workingGPUs() (all []GPU) {
	for i, d := range v.gpus {
		if !v.faulty[d] {
			all = append(all, v.GPUs[i])
		}
	}

	return all
}

// valuesOf returns what is known of each GPU; false where it is not known of all.
func valuesOf[T any](gpus []GPU, read func(GPU) *T) (values []string, ok bool) {
	for _, g := range gpus {
		value := read(g)
		if value == nil {
			return nil, false
		}
		values = append(values, fmt.Sprint(*value))
	}

	return values, true
}

// areSeveral reports whether not all values are the same.
func areSeveral(values []string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return v != values[0] })
}

// send is what to send to the administrator: three sentences that can be pasted, for a person
// who does not know this project.
func (v *Verdict) send() []string {
	// Nothing is sent about a guest that is good, or about faults that its user can cure.
	wishes := v.asks()
	if (v.Outcome == Good || len(v.faults) > 0) && len(wishes) == 0 {
		return []string{}
	}

	ask := "`kubectl hostdev explain VM` (" + reasons.Page("docs/kubectl-hostdev.md") + " of " +
		"hook-sidecar, a KubeVirt hook that gives a VM the node's PCI tree) shows where the devices " +
		"are on the node and in the VM, and changes nothing in the cluster"
	if v.Outcome == Flat && v.gains() || v.Host != nil && !v.Host.Compared {
		ask += "; with `-o nccl` it writes the topology file for NCCL, which you can send me"
	}

	want := "Please send me what it prints."
	if len(wishes) > 0 {
		want = "I ask for " + strings.Join(wishes, " and ") + "."
	}

	return []string{v.situation(), ask + ".", want}
}

// situation says what is wrong in the guest, without what its user can do.
func (v *Verdict) situation() string {
	has := fmt.Sprintf("%s and %s", words.Counted(len(v.gpus), "GPU"),
		words.Counted(len(nicsOf(&v.guest)), "NIC"))
	cost := cmp.Or(v.short, v.Cost)
	for _, f := range v.faults {
		cost += "; " + f.what
	}

	switch {
	case v.Outcome == Broken:
		return "In my VM with " + has + ": " + cost + "."
	case v.Outcome == Unknown:
		return "My VM has " + has + ", and what it shows me does not tell whether its PCI tree is " +
			"that of the node."
	case v.Outcome == Partly:
		return "In my VM with " + has + " the PCI tree is only partly that of the node: " + cost + "."
	}

	return fmt.Sprintf("In my VM with %s the PCI tree is %s: %s.", has, v.Outcome, cost)
}

// asks lists what the VM should have, in words for an administrator.
func (v *Verdict) asks() (wishes []string) {
	if keys := v.wishes(); len(keys) > 0 {
		wishes = append(wishes, "the node's tree in the VM: the hook-sidecar with "+
			strings.Join(keys, ", ")+" ("+reasons.Page("README.md")+")")
	}

	if v.knowsNodes() && v.withNode() == 0 && v.Outcome != Broken {
		wishes = append(wishes, "NUMA nodes (spec.domain.cpu.numa.guestMappingPassthrough in the VMI)")
	}

	for _, f := range v.faults {
		if f.wish != "" && !slices.Contains(wishes, f.wish) {
			wishes = append(wishes, f.wish)
		}
	}

	return wishes
}

// gains reports whether a tree can say anything of the guest's devices: of a GPU alone it cannot.
func (v *Verdict) gains() bool { return len(v.gpus) > 1 || len(nicsOf(&v.guest)) > 0 }

// wishes returns the keys of the hook that would restore what the guest lacks.
func (v *Verdict) wishes() (keys []string) {
	// A finer tree helps a GPU that works and lacks a switch to its NIC. If nothing is known of
	// NICs, it may help wherever there are two devices to tell apart.
	works := v.judged - v.broken - v.robbed
	lacksSwitches := v.judged == 0 && len(v.faults) == 0 && v.gains() || v.direct < works
	switch isBad := v.Outcome == Flat || v.Outcome == Partly; {
	case isBad && v.Host != nil && len(v.Host.Restore) > 0:
		for _, r := range v.Host.Restore {
			if r.Key != topologyFile { // which does the same as a layout
				keys = append(keys, r.Key)
			}
		}
		return keys

	case isBad && v.Limited:
		keys = append(keys, "port-speed=host")
	case isBad && v.Host != nil && v.Host.Compared: // the host has no more to show
	case isBad && lacksSwitches:
		keys = append(keys, "layout=auto")
	}

	// The driver does not know the chipset that it is shown; a clique makes up for that.
	if v.peersWith("OK") == 0 && v.peersWith("CNS")+v.peersWith("TNS") > 0 && !v.isJoined() {
		keys = append(keys, "gpudirect-clique=host")
	}

	return keys
}
