package reasons

// Page is what docs/reasons.md has about a code besides its meaning and its remedy, in
// Markdown. A test in test/docs writes that page from these tables.
type Page struct {
	Text string // "" where meaning and remedy are enough
	See  string // how a user sees it, after "To see it: "
}

// pageEntry is a line of a table of pages.
type pageEntry[T comparable] struct {
	code      T
	text, see string
}

// Page returns a zero Page for an unknown reason.
func (r Reason) Page() Page { return findPage(reasonPages(), r) }

// Page returns that of the reason of the same name, if there is one, and a zero Page for an
// unknown code.
func (c Code) Page() Page {
	if p := findPage(codePages(), c); p != (Page{}) {
		return p
	}
	return Reason(c).Page()
}

func findPage[T comparable](table []pageEntry[T], code T) Page {
	for _, e := range table {
		if e.code == code {
			return Page{Text: e.text, See: e.see}
		}
	}
	return Page{}
}

func reasonPages() []pageEntry[Reason] {
	return []pageEntry[Reason]{
		{Memnode, "", "`<memnode cellid=\"1\" mode=\"strict\" nodeset=\"1\"/>` in the domain's `<numatune>`."},
		{VCPUPin, "No cell, or several, take memory from that node. For memory to decide, bind each host node to one cell in `numatune`.", "compare `cputune/vcpupin` with `/sys/devices/system/node/node*/cpulist` on the node."},
		{Companion, "", "the guest addresses of both differ in the function only."},
		{AlreadyAligned, "An earlier call of the boot, KubeVirt's `PCINUMAAwareTopology` or another hook has put it there, or nearer to the host's places than the layout would.", "from the second call of a boot on, the log has it for all placed devices."},
		{UserAddress, "It was chosen with `interfaces[].pciAddress` in the VMI, `--keep ALIAS`, or `<address type='unassigned'/>`, which hides the device from the guest. Remove that to have the device placed.", "`kubectl get vmi \"$VM\" -o json | jq '.spec.domain.devices.interfaces[] | {name, pciAddress}'`"},
		{RootComplex, "With `\"true\"` KubeVirt puts every device on the root bus. Remove the annotation to have devices placed.", "`kubectl get vmi \"$VM\" -o jsonpath='{.metadata.annotations}'`"},
		{Referenced, "The reference is an `<iommu><driver pciBus=…>`, `qemu:override` or `qemu:commandline`; KubeVirt's Grace path has one SMMUv3 per expander bus. The index of such a bus is never reused.", "`grep -nE 'pciBus=|qemu:(override|arg)' vm.xml`"},
		{Conventional, "Examples are the USB or audio controllers of some chipsets. Under a root port it would need no such bridge, and the disks and NICs after that bridge would move.", "`stat -c %s /sys/bus/pci/devices/ADDRESS/config` prints 256 on the node."},
		{LayoutKeep, "To have devices placed, remove the annotation `hostdev.vm.kubevirt.io/layout` or the flag, or choose another layout.", "`explain --format json | jq .policy.layout` has the layout's origin."},
		{NoGuestNUMA, "This is the usual case. The node needs the CPU manager's policy `static` (label `cpumanager=true`) and free hugepages; [vmi.yaml](../manifests/annotation/vmi.yaml) is an example.", "the domain's `<cpu><numa>` has no `<cell`; the guest's `lscpu` shows one NUMA node."},
		{NoHostNode, "`numa_node` is -1 or a node that is not online, or a mediated device's parent is not a PCI device. Never on a host with one node. Turn node interleaving off in the firmware, or update it: the ACPI tables lack `_PXM` of the host bridge. Until the node's next boot root can run `echo 1 > /sys/bus/pci/devices/0000:9d:00.0/numa_node`, which taints the kernel.", "on the node `grep . /sys/bus/pci/devices/*/numa_node`"},
		{NoGuestCell, "The kubelet needs `cpuManagerPolicy: static`, `memoryManagerPolicy: Static` with `reservedMemory`, and a device plugin that reports NUMA nodes, as KubeVirt's does. A VM with devices of both sockets needs CPUs and memory of both.", "`numatune` in the domain lacks the device's `hostNode`."},
		{AmbiguousCell, "KubeVirt does not write this.", "`grep -E '<memnode|<vcpupin|<cell ' vm.xml`"},
		{NoSysfs, "The container runtime masks parts of `/sys`, or the domain or `--sysfs` is of another host; as a warning it names the path. `kubectl hostdev snapshot VM -o host.txtar` has the right host. Reading sysfs takes no privilege.", "`kubectl exec \"$POD\" -c hook-sidecar-0 -- hook-sidecar snapshot | grep '^-- bus/'`"},
		{Machine, "", "`<type arch=… machine=…>` in the domain."},
		{Budget, "A warning with the same code has what is needed and what is free of bus numbers, slots of the root bus or controller indexes. Past controller index 31 `hotplug-ports=0` saves some.", "`budgets` and `warnings` of `explain --format json`"},
		{BrokenRule, "A warning with the same code names the [rule](how-it-works.md#the-rules) and the controller or device. For example, libvirt gives an expander bus without `busNr` two bus numbers; with two ports it needs three, and the third is the next expander bus's. Add `<target busNr='100'/>`.", "`explain --format json | jq '.warnings[] | select(.code == \"broken-rule\")'`"},
	}
}

// codePages lacks codes that are reasons, too.
func codePages() []pageEntry[Code] {
	return []pageEntry[Code]{
		{CodeUnknownPolicyKey, "An annotation `hostdev.vm.kubevirt.io/…` is not a [key](../README.md#the-policy) and is ignored. Under `strict` it fails the VM.", "the warning names the annotation."},
		{CodeBadPolicyValue, "An annotation has an invalid value and is ignored. Under `strict` it fails the VM; a bad `strict` does not. Annotations are text, so quote `\"true\"`.", "the warning has the value and what is allowed."},
		{CodePolicyLocked, "The hook runs with `--lock` for this key, so the annotation is ignored.", "`args` in the annotation `hooks.kubevirt.io/hookSidecars`, or in the plugin's container."},
		{CodeUnknownAlias, "`--keep` names an alias that no hostdev has. [KubeVirt's](install.md#environment-variables) begin with `ua-`.", "`explain --format json | jq -r '.devices[].alias'`"},
		{CodeBadNodeset, "A `nodeset` of a memnode, a `cpuset` of a vcpupin or `cpus` of a cell cannot be read. Valid are `nodeset=\"0\"` and `cpuset=\"2-5,8\"`. Another hook wrote it.", "the warning names the element and its value."},
		{CodeUnknownCell, "A `numatune/memnode` names a cell that `cpu/numa` lacks, and is ignored. Another hook wrote it.", "`grep -E '<memnode|<cell ' vm.xml`"},
		{CodeVIOMMU, "The domain has a virtual IOMMU of its own that is not tested with expander buses: of another model than `intel`, or in `qemu:commandline`, where libvirt does not count [the memory that it locks](doctor.md#locked-memory). Devices are placed as usual.", "in the guest `find /sys/kernel/iommu_groups -type l`"},
		{CodeVIOMMURefused, "[`viommu`](guest.md#viommu) is set, and the domain cannot have it; the text says why. Nothing is changed for it. A vIOMMU or an I/O APIC of the domain's own stays.", "`grep -E '<iommu|<ioapic|machine=' vm.xml`"},
		{CodeVIOMMUGroup, "The guest has an IOMMU, and layout `mirror` puts several devices under one port of an emulated switch that is under a second switch. QEMU's switch ports have no ACS, so the guest's kernel puts these devices into one IOMMU group, and only one nested guest can have them.", "in the guest `ls /sys/bus/pci/devices/0000:e6:00.0/iommu_group/devices`"},
		{CodeCliqueRefused, "[`gpudirect-clique=host`](guest.md#gpudirect-clique) is set, and these NVIDIA GPUs are in no clique; the text says why for each. A clique needs two GPUs under one switch of the host or one PCIe root, and ports between them whose ACS the hook can read, which takes CAP_SYS_ADMIN, and which redirect no peer request.", "on the node as root `lspci -vvv -s 17:00.0 | grep ACSCtl`; `ReqRedir+` or `CmpltRedir+` refuses."},
		{CodeLaunchSecurity, "`<launchSecurity>` (SEV, TDX) is not tested with expander buses. Devices are placed as usual.", "compare the guest's `lspci -D` with the predicted addresses."},
		{CodeIOSpace, "More than 14 ports have a device with an I/O BAR (4 KiB each), and SeaBIOS stops without a message, with or without the hook. GeForce and Quadro have I/O BARs; data-centre GPUs and NICs do not. Under OVMF each device after the ninth loses all its BARs (`make boot-sizes`).", "the guest hangs with a black console."},
		{CodeMMIOWindow, "The devices' 64-bit BARs do not fit into the window of the guest's firmware, and [`mmio-window=auto`](guest.md#mmio-window) cannot make it large enough: the guest's address bits have no room for it, OVMF takes no more than 16 TiB, SeaBIOS and the machine `virt` take none, or the domain has an `X-PciMmio64Mb` of its own. The guest will lose devices.", "`doctor`'s check [`bar-window`](doctor.md#bar-window) has the numbers."},
		{CodeCoarserLayout, "The tree that layout `auto` wants does not fit, and a coarser one was built; the text has what is needed and free. With an explicit layout nothing would be moved, and the warning would be [`budget-exceeded`](#budget-exceeded).", "`explain` prints `layout auto: numa, since root does not fit: …`."},
		{CodeSwitchPortSpeed, "The guest's [switch ports](layouts.md#link-speed) advertise 2.5 GT/s x1, and NCCL underestimates their links. [`port-speed`](guest.md#port-speed) changes root ports only; layout `root` has no switches.", "in the guest `lspci -vv -d 104c: | grep LnkCap`"},
		{CodePortSpeed, "The guest's [root ports](layouts.md#link-speed) advertise 16 GT/s, and a GPU and another GPU or NIC under them have a faster link: NCCL and RCCL count 24 GB/s for 32 GT/s x16, not 48. No transfer is slower; the choice of rings and channels is.", "in the guest `lspci -vv -d 1b36:000c | grep LnkCap`; on the node `cat /sys/bus/pci/devices/0000:1b:00.0/max_link_speed`"},
		{CodeSwitchPortHotplug, "All passthrough devices belong to SR-IOV networks, so their ports [stay hotpluggable](how-it-works.md#the-rules). With 16 of them under switches OVMF 2022.11 leaves every device without BARs; with 12 it loses none.", "in the guest devices missing in `lspci`, or `BAR 0: no space` in `dmesg`."},
		{CodeHotplugPortsCapped, "Fewer root ports than wanted stay free for hotplug: devices come first, though never below KubeVirt's own count.", "the warning has both numbers."},
		{CodeNCCLIncomplete, "A GPU or NIC is not in the topology file, because it is on the root bus or has no address yet.", "`explain --format nccl` warns of the device."},
		{CodeNCCLNoReader, "With `nccl-topology=cloudinit` the guest gets the topology file in `fw_cfg`, but nothing copies it to where NCCL looks: the VM has no cloud-init volume or its user data is not cloud-init's, or the hook gets no cloud-init data, because it is a plugin, under the sidecar-shim, or started [without the flag](guest.md#with-cloud-init).", "`ls /var/run/nvidia-topologyd` in the guest."},
		{CodeGroupNotViable, "A host driver holds another function of the device's IOMMU group. VFIO refuses the group, and QEMU does not start; the hook places the device anyway. Bridges do no harm.", "on the node `ls /sys/bus/pci/devices/0000:01:00.0/iommu_group/devices` and `lspci -nnk -s 01:00`"},
		{CodeBadSysfs, "A file under `/sys` cannot be read or has an impossible value. If it is good on the node, the pod sees another `/sys`; else report it with `uname -r`.", "the warning names the file."},
		{CodeNotAllocated, "The VMI names a gpu or host device that has no `<hostdev>`, and no variable has a device left for its resource. Compare the resource name with the node's \"Allocatable\" and with `permittedHostDevices` of the KubeVirt object. Under `strict` it fails the VM.", "`kubectl exec \"$POD\" -c compute -- env | grep _RESOURCE_` shows what was allocated."},
		{CodeBadDeviceName, "A gpu or host device to add has a name with a character that XML cannot hold, so it is not added. Under `strict` it fails the VM.", "the warning shows the name."},
		{CodeVariableCollision, "Two resources of the VMI have [the same variable](install.md#environment-variables), so their devices cannot be told apart.", "the warning names the variable and the resources."},
		{CodeBadVariable, "An element is not a PCI address (`0000:86:00.0`) or, for `MDEV_PCI_RESOURCE_*`, a UUID, or the name ends after the prefix.", "the warning has the variable and the first bad element."},
		{CodeVariableConflict, "A name is given twice with different values; the first counts, as for virt-launcher.", "the warning names the variable."},
	}
}
