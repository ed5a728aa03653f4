package docs

import "hook-sidecar/pkg/reasons"

// codePage has the text of docs/reasons.md about a code, besides its meaning and its remedy, in
// Markdown.
type codePage struct {
	text string // "" where meaning and remedy are enough
	see  string // how a user sees it, after "To see it: "
}

func reasonPages() map[reasons.Reason]codePage {
	return map[reasons.Reason]codePage{
		reasons.Memnode: {"",
			"`<memnode cellid=\"1\" mode=\"strict\" nodeset=\"1\"/>` in the domain's `<numatune>`."},
		reasons.VCPUPin:        {"No cell, or several, take memory from that node. For memory to decide, bind each host node to one cell in `numatune`.", "compare `cputune/vcpupin` with `/sys/devices/system/node/node*/cpulist` on the node."},
		reasons.Companion:      {"", "the guest addresses of both differ in the function only."},
		reasons.AlreadyAligned: {"An earlier call of the boot, KubeVirt's `PCINUMAAwareTopology` or another hook has put it there, or nearer to the host's places than the layout would.", "from the second call of a boot on, the log has it for all placed devices."},
		reasons.UserAddress:    {"It was chosen with `interfaces[].pciAddress` in the VMI, `--keep ALIAS`, or `<address type='unassigned'/>`, which hides the device from the guest. Remove that to have the device placed.", "`kubectl get vmi \"$VM\" -o json | jq '.spec.domain.devices.interfaces[] | {name, pciAddress}'`"},
		reasons.RootComplex:    {"With `\"true\"` KubeVirt puts every device on the root bus. Remove the annotation to have devices placed.", "`kubectl get vmi \"$VM\" -o jsonpath='{.metadata.annotations}'`"},
		reasons.Referenced:     {"The reference is an `<iommu><driver pciBus=…>`, `qemu:override` or `qemu:commandline`; KubeVirt's Grace path has one SMMUv3 per expander bus. The index of such a bus is never reused.", "`grep -nE 'pciBus=|qemu:(override|arg)' vm.xml`"},
		reasons.Conventional:   {"Examples are the USB or audio controllers of some chipsets. Under a root port it would need no such bridge, and the disks and NICs after that bridge would move.", "`stat -c %s /sys/bus/pci/devices/ADDRESS/config` prints 256 on the node."},
		reasons.LayoutKeep:     {"To have devices placed, remove the annotation `hostdev.vm.kubevirt.io/layout` or the flag, or choose another layout.", "`explain --format json | jq .policy.layout` has the layout's origin."},
		reasons.NoGuestNUMA:    {"This is the usual case. The node needs the CPU manager's policy `static` (label `cpumanager=true`) and free hugepages; [vmi.yaml](../manifests/annotation/vmi.yaml) is an example.", "the domain's `<cpu><numa>` has no `<cell`; the guest's `lscpu` shows one NUMA node."},
		reasons.NoHostNode:     {"`numa_node` is -1 or a node that is not online, or a mediated device's parent is not a PCI device. Never on a host with one node. Turn node interleaving off in the firmware, or update it: the ACPI tables lack `_PXM` of the host bridge. Until the node's next boot root can run `echo 1 > /sys/bus/pci/devices/0000:9d:00.0/numa_node`, which taints the kernel.", "on the node `grep . /sys/bus/pci/devices/*/numa_node`"},
		reasons.NoGuestCell:    {"The kubelet needs `cpuManagerPolicy: static`, `memoryManagerPolicy: Static` with `reservedMemory`, and a device plugin that reports NUMA nodes, as KubeVirt's does. A VM with devices of both sockets needs CPUs and memory of both.", "`numatune` in the domain lacks the device's `hostNode`."},
		reasons.AmbiguousCell: {"KubeVirt does not write this.",
			"`grep -E '<memnode|<vcpupin|<cell ' vm.xml`"},
		reasons.NoSysfs:    {"The container runtime masks parts of `/sys`, or the domain or `--sysfs` is of another host; as a warning it names the path. `kubectl hostdev snapshot VM --output-file host.txtar` has the right host. Reading sysfs takes no privilege.", "`kubectl exec \"$POD\" -c hook-sidecar-0 -- hook-sidecar snapshot | grep '^-- bus/'`"},
		reasons.Machine:    {"", "`<type arch=… machine=…>` in the domain."},
		reasons.Budget:     {"A warning with the same code has what is needed and what is free of bus numbers, places on the root bus or controller indexes. Past controller index 31 `hotplug-ports=0` saves some.", "`budgets` and `warnings` of `explain --format json`"},
		reasons.BrokenRule: {"A warning with the same code names the [rule](how-it-works.md#the-rules) and the controller or device. For example, libvirt gives an expander bus without `busNr` two bus numbers; with two ports it needs three, and the third is the next expander bus's. Add `<target busNr='100'/>`.", "`explain --format json | jq '.warnings[] | select(.code == \"broken-rule\")'`"},
	}
}

type warningPage struct {
	code reasons.Code
	codePage
}

// warningPages has the warnings in the order of docs/reasons.md, without those that are
// reasons, too.
func warningPages() []warningPage {
	return []warningPage{
		{reasons.CodeUnknownPolicyKey, codePage{
			"An annotation `hostdev.vm.kubevirt.io/…` is not a [key](../README.md#the-policy) and is ignored. Under `strict` it fails the VM.",
			"the warning names the annotation.",
		}},
		{reasons.CodeBadPolicyValue, codePage{
			"An annotation has an invalid value and is ignored. Under `strict` it fails the VM; a bad `strict` does not. Annotations are text, so quote `\"true\"`.",
			"the warning has the value and what is allowed.",
		}},
		{reasons.CodePolicyLocked, codePage{
			"The hook runs with `--lock` for this key, so the annotation is ignored.",
			"`args` in the annotation `hooks.kubevirt.io/hookSidecars`, or in the plugin's container.",
		}},
		{reasons.CodeUnknownAlias, codePage{
			"`--keep` names an alias that no hostdev has. [KubeVirt's](install.md#environment-variables) begin with `ua-`.",
			"`explain --format json | jq -r '.devices[].alias'`",
		}},
		{reasons.CodeBadNodeset, codePage{
			"A `nodeset` of a memnode, a `cpuset` of a vcpupin or `cpus` of a cell cannot be read. Valid are `nodeset=\"0\"` and `cpuset=\"2-5,8\"`. Another hook wrote it.",
			"the warning names the element and its value.",
		}},
		{reasons.CodeUnknownCell, codePage{
			"A `numatune/memnode` names a cell that `cpu/numa` lacks, and is ignored. Another hook wrote it.",
			"`grep -E '<memnode|<cell ' vm.xml`",
		}},
		{"viommu", codePage{
			"The domain has a virtual IOMMU of its own that is not tested with expander buses: of another model than `intel`, or in `qemu:commandline`, where libvirt does not count [the memory that it locks](doctor.md#locked-memory). Devices are placed as usual.",
			"in the guest `find /sys/kernel/iommu_groups -type l`",
		}},
		{reasons.CodeVIOMMURefused, codePage{
			"[`viommu`](guest.md#viommu) is set, and the domain cannot have it; the text says why. Nothing is changed for it. A vIOMMU or an I/O APIC of the domain's own stays.",
			"`grep -E '<iommu|<ioapic|machine=' vm.xml`",
		}},
		{"viommu-shared-group", codePage{
			"The guest has an IOMMU, and layout `mirror` puts several devices under one port of an emulated switch that is under a second switch. QEMU's switch ports have no ACS, so the guest's kernel puts these devices into one IOMMU group, and only one nested guest can have them.",
			"in the guest `ls /sys/bus/pci/devices/0000:e6:00.0/iommu_group/devices`",
		}},
		{"ssid-size", codePage{
			"KubeVirt's gate for Grace gives each SMMUv3 the attribute `ssidSize`. libvirt 12.7 and later know `ssidsize` and drop the other without a word, so the width of PASIDs is not what KubeVirt chose. The hook writes `ssidsize`, with the same value, in every layout, but not in a dry run; libvirt before 12.7 ignores both. KubeVirt's own types lose the attribute if it defines the domain again from libvirt's.",
			"`grep -io 'ssidsize=[^ ]*' vm.xml`, of the domain that `virsh dumpxml` prints.",
		}},
		{"grace", codePage{
			"A fault of the elements for [Grace](grace.md), or a GPU of a Grace machine without them. libvirt accepts it, and QEMU, with the words in the warning, does not start, or the guest lacks a part of a GPU.",
			"`grep -E 'pciBus|nodeset|pcihole64|iommufd|<cell ' vm.xml`",
		}},
		{"nvswitches", codePage{
			"The VM has NVSwitches, and not those that [full passthrough](nvlink.md#three-models) gives to its number of GPUs. Fabric Manager in the guest does not start then, and CUDA fails with 802. With Fabric Manager elsewhere the VM needs none.",
			"`lspci -d 10de:` on the node lists GPUs (class 0302) and NVSwitches (0680).",
		}},
		{"nvlink-partition", codePage{
			"The VM's GPUs are none of the [NVLink partitions](nvlink.md#the-partitions) of their board, so CUDA fails with 802 in the guest. Where the node's partitions are known, by its annotation or its driver, the warning of `explain` and `doctor` names those of the VM's number. The hook's log knows only numbers that no board has, such as five.",
			"`fmpm -l` on the node lists the partitions, `kubectl hostdev fit --node NODE` which of them are free.",
		}},
		{reasons.CodeCliqueRefused, codePage{
			"[`gpudirect-clique=host`](guest.md#gpudirect-clique) is set, and these NVIDIA GPUs are in no clique; the text says why for each. A clique needs two GPUs under one switch of the host or one PCIe root, and ports between them whose ACS the hook can read, which takes CAP_SYS_ADMIN, and which redirect no peer request.",
			"on the node as root `lspci -vvv -s 17:00.0 | grep ACSCtl`; `ReqRedir+` or `CmpltRedir+` refuses.",
		}},
		{reasons.CodeHypervisorHidden, codePage{
			"GPUs have a [clique](guest.md#gpudirect-clique), and `<kvm><hidden state='on'/></kvm>` hides the hypervisor. NVIDIA's driver looks for the clique's capability only where it sees one ([noonghunna/club-3090 PR 890](https://github.com/noonghunna/club-3090/pull/890)), so the clique has no effect and nothing says so.",
			"in the guest `nvidia-smi topo -p2p r` shows `CNS` or `NS`; `grep -A2 '<kvm>' vm.xml`",
		}},
		{"launch-security", codePage{
			"`<launchSecurity>` (SEV, TDX) is not tested with expander buses. Devices are placed as usual.",
			"compare the guest's `lspci -D` with the predicted addresses.",
		}},
		{"io-space", codePage{
			"More than 14 ports have a device with an I/O BAR (4 KiB each), and SeaBIOS stops without a message, with or without the hook. GeForce and Quadro have I/O BARs; data-centre GPUs and NICs do not. Under OVMF each device after the ninth loses all its BARs (`make boot-sizes`).",
			"the guest hangs with a black console.",
		}},
		{reasons.CodeMMIOWindow, codePage{
			"The devices' 64-bit BARs do not fit into the window of the guest's firmware, and [`mmio-window=auto`](guest.md#mmio-window) cannot make it large enough: the guest's address bits have no room for it, OVMF takes no more than 16 TiB, SeaBIOS and the machine `virt` take none, or the domain has an `X-PciMmio64Mb` of its own. The guest will lose devices.",
			"`doctor`'s check [`bar-window`](doctor.md#bar-window) has the numbers.",
		}},
		{reasons.CodeCoarserLayout, codePage{
			"The tree that layout `auto` wants does not fit, and a coarser one was built; the text has what is needed and free. With an explicit layout nothing would be moved, and the warning would be [`budget-exceeded`](#budget-exceeded).",
			"`explain` prints `layout auto: numa, since root does not fit: …`.",
		}},
		{reasons.CodeFurtherApart, codePage{
			"One device of the pair is placed and the other has to stay, such as a conventional PCI card beside a GPU of its PCIe root: without the hook both are on the guest's root bus (PHB), with it one is under an expander bus (SYS). Or the host has both on one PCIe root and two NUMA nodes, and each is in its own cell. Where every layout would take two placed devices further apart, nothing is moved.",
			"`explain --format json | jq '.warnings[] | select(.code == \"further-apart\")'`; a later call of the boot finds the devices placed and no longer warns.",
		}},
		{"gpudirect-rdma-off", codePage{
			"NCCL uses GPUDirect RDMA between a GPU and a NIC up to PXB: under one switch, or under switches that are under one. The layout has no such switch, since its ports would advertise a [false speed](layouts.md#link-speed) on a path that NCCL uses, or the layout is `numa`, `root` or another tool's. Data to and from the NIC then goes through the guest's memory.",
			"in the guest `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH,NET` prints `GPU Direct RDMA Disabled for GPU … (distance 5 > 4)`.",
		}},
		{"switch-port-link-speed", codePage{
			"The upstream ports of the guest's [switches](layouts.md#link-speed) advertise 2.5 GT/s x1, and NCCL underestimates the paths through them.",
			"in the guest `lspci -vv -d 104c:8232 | grep LnkCap`",
		}},
		{"port-link-speed", codePage{
			"The guest's [root ports](layouts.md#link-speed) advertise 16 GT/s, and a GPU and another GPU or NIC under them have a faster link: NCCL and RCCL count 24 GB/s for 32 GT/s x16, not 48. No transfer is slower; the choice of rings and channels is.",
			"in the guest `lspci -vv -d 1b36:000c | grep LnkCap`; on the node `cat /sys/bus/pci/devices/0000:1b:00.0/max_link_speed`",
		}},
		{reasons.CodePortSpeedRefused, codePage{
			"[`port-speed=host`](guest.md#port-speed) is set, and these switches or root ports do not get the host's links; the text says why. For a switch: the machine allows a QEMU before 10.0, the VM could migrate, the host has no such link or QEMU no value for it, or the domain has a setting of its own for one of the ports.",
			"`explain --details`; `grep -A5 'qemu:device alias' vm.xml`",
		}},
		{"switch-port-hotplug", codePage{
			"All passthrough devices belong to SR-IOV networks, so their ports [stay hotpluggable](how-it-works.md#the-rules). With 16 of them under switches OVMF 2022.11 leaves every device without BARs; with 12 it loses none.",
			"in the guest devices missing in `lspci`, or `BAR 0: no space` in `dmesg`.",
		}},
		{reasons.CodeHotplugPortsCapped, codePage{
			"Fewer root ports than wanted stay free for hotplug: devices come first, though never below KubeVirt's own count.",
			"the warning has both numbers.",
		}},
		{reasons.CodeNCCLIncomplete, codePage{
			"A GPU or NIC is not in the topology file, because it is on the root bus or has no address yet.",
			"`explain --format nccl` warns of the device.",
		}},
		{reasons.CodeNCCLNoReader, codePage{
			"With `nccl-topology=cloudinit` the guest gets the topology file in `fw_cfg`, but nothing copies it to where NCCL looks: the VM has no cloud-init volume or its user data is not cloud-init's, or the hook gets no cloud-init data, because it is a plugin, under the sidecar-shim, or started [without the flag](guest.md#with-cloud-init).",
			"`ls /var/run/nvidia-topologyd` in the guest.",
		}},
		{"iommu-group-not-viable", codePage{
			"A host driver holds another function of the device's IOMMU group. VFIO refuses the group, and QEMU does not start; the hook places the device anyway. Bridges do no harm.",
			"on the node `ls /sys/bus/pci/devices/0000:01:00.0/iommu_group/devices` and `lspci -nnk -s 01:00`",
		}},
		{reasons.CodeBadSysfs, codePage{
			"A file under `/sys` cannot be read or has an impossible value. If it is good on the node, the pod sees another `/sys`; else report it with `uname -r`.",
			"the warning names the file.",
		}},
		{reasons.CodeNotAllocated, codePage{
			"The VMI names a gpu or host device that has no `<hostdev>`, and no variable has a device left for its resource. Compare the resource name with the node's \"Allocatable\" and with `permittedHostDevices` of the KubeVirt object. Under `strict` it fails the VM.",
			"`kubectl exec \"$POD\" -c compute -- env | grep _RESOURCE_` shows what was allocated.",
		}},
		{reasons.CodeBadDeviceName, codePage{
			"A gpu or host device to add has a name with a character that XML cannot hold, so it is not added. Under `strict` it fails the VM.",
			"the warning shows the name.",
		}},
		{reasons.CodeVariableCollision, codePage{
			"Two resources of the VMI have [the same variable](install.md#environment-variables), so their devices cannot be told apart.",
			"the warning names the variable and the resources.",
		}},
		{reasons.CodeBadVariable, codePage{
			"An element is not a PCI address (`0000:86:00.0`) or, for `MDEV_PCI_RESOURCE_*`, a UUID, or the name ends after the prefix.",
			"the warning has the variable and the first bad element.",
		}},
		{reasons.CodeVariableConflict, codePage{
			"A name is given twice with different values; the first counts, as for virt-launcher.",
			"the warning names the variable.",
		}},
	}
}

// checkPage has the text of docs/doctor.md about a check, in Markdown.
type checkPage struct {
	name   string
	asks   string // the question that the check answers, and what it takes for a WARN or FAIL
	remedy string
}

// checkPages has a page for each check, in the order of doctor.Checks.
func checkPages() []checkPage {
	return []checkPage{
		{"sysfs",
			"Can the host be read, and does it show every device? A value that no kernel writes is a WARN and counts as absent; a missing device is a FAIL. Where every device is missing, this is not the VM's node.", "`kubectl hostdev snapshot VM --output-file host.txtar`, or `hook-sidecar snapshot` on the node, and pass the file with `--sysfs`; otherwise as for [`no-sysfs`](reasons.md#no-sysfs)."},
		{"iommu-enabled",
			"Is each PCI function for guests in an IOMMU group? VFIO needs one. In a guest, which has an emulated bridge, the hint is for guests.", "enable VT-d, AMD-Vi or the SMMU in the firmware, and boot with `intel_iommu=on` or `amd_iommu=on`."},
		{"host-numa",
			"Does the firmware report the NUMA nodes? With node interleaving, or NPS0 on AMD, two sockets look like one node. A NOTE with one node, if the snapshot lacks the CPU packages.", "disable node interleaving in the firmware, or choose NPS1 or more, or sub-NUMA clustering."},
		{"shared-device",
			"Is each device in one domain of the node, where the domains of several VMs are given? The first VM that starts has it, the others do not start.", "give each VM devices of its own; `grep -l` for the address in the domains shows who has it."},
		{"driver-bound",
			"Is each function bound to `vfio-pci`, a variant such as `mlx5_vfio_pci`, or, for the virtual function of an NVIDIA vGPU, `nvidia`?", "`driverctl set-override 0000:01:00.0 vfio-pci`, the GPU Operator's VFIO manager, or the SR-IOV operator."},
		{"iommu-group-viable",
			"Does a host driver hold another member of the IOMMU group? VFIO then refuses the group, and the VM does not start. Bridges, functions without a driver and functions with `pci-stub` do no harm.", "bind every function of the group to `vfio-pci`, or leave the device out; another slot or ACS makes groups smaller."},
		{"numa-node",
			"Does the kernel know each device's NUMA node? NVIDIA's device plugin reports -1 as node 0, and the Topology Manager then aligns CPUs and memory with node 0. KubeVirt's own plugin reports no node.", "as for [`no-host-node`](reasons.md#no-host-node), before the device plugin starts."},
		{"reset-method",
			"Can the kernel reset each function, so that the next guest does not find what the last one left? Kernels before 5.15 do not show it, a NOTE.", "a newer kernel may know a method (`/sys/bus/pci/devices/0000:01:00.0/reset_method`); without one, reboot the host between guests."},
		{"link-degraded",
			"Do the links of the device and of the switches above it run at what both ends support? A virtual function or mediated device has its physical function's link. A slot that supports less than its card is a NOTE.", "look at `lspci -vv -s 01:00.0 | grep Lnk` under load, since an idle GPU lowers its speed; for lost lanes reseat the card or its riser and check the slot's bifurcation."},
		{"acs",
			"Are devices isolated? Functions of different cards in one IOMMU group are a WARN: a port above them lacks ACS, and they can only go to one guest. Root on the node, or a snapshot that root took, also shows which ports send peer-to-peer traffic to the IOMMU; elsewhere that is a NOTE.", "enable ACS in the firmware, or use slots under different root ports. For GPUDirect in a VM keep ACS and use ATS; do not write one value to the ACS of every bridge."},
		{"ats",
			"Do devices have Address Translation Services, with which peer traffic goes straight through a switch with ACS? Seen as `acs` is.", "on ConnectX `mlxconfig -d DEVICE set ATS_ENABLED=true`, then reboot the host."},

		{"mdev-types",
			"Does each GPU have one type of vGPU? In equal-size mode, the default, a GPU starts only vGPUs of the first one's size. A vGPU is a mediated device or, with vendor-specific VFIO, a virtual function with a type.", "remove the vGPUs of one type as below, or use mixed-size mode where the GPU has it."},
		{"mdev-unused",
			"Which vGPUs does no domain use? Each keeps its GPU at its type, also after its VM is gone. With one domain this is a NOTE, since other VMs may use them; with all domains of the node a WARN.", "`echo 1 > /sys/bus/mdev/devices/UUID/remove`; for a virtual function `echo 0 > /sys/bus/pci/devices/0000:41:00.4/nvidia/current_vgpu_type`."},
		{"vgpu-capacity",
			"Can each GPU create the rest of the vGPUs that its type promises (`max_instance`, `available_instances`), and a GPU without vGPUs any at all (`creatable_vgpu_types`)? Skipped for MIG, and for a GPU with several types.", "end what still holds the GPU (`nvidia-smi vgpu -q`), restart `nvidia-vgpu-mgr`, or reset the GPU (`nvidia-smi --gpu-reset`)."},

		{"vmi-of-domain",
			"Is the domain that of the VMI, by its name (`NAMESPACE_NAME`) and KubeVirt's uid?",
			"`kubectl get vmi NAME -n NAMESPACE -o json`"},
		{"machine-type", "Does the machine have expander buses? Without devices it needs none.",
			"as for [`unsupported-machine`](reasons.md#unsupported-machine)."},
		{"guest-numa",
			"Does the guest have NUMA cells, on known host nodes? Without cells layout `numa` is a FAIL, `root` and `mirror` a WARN. With a VMI it names what is missing.", "as for [`no-guest-numa`](reasons.md#no-guest-numa)."},
		{"vcpu-nodes",
			"Are the vCPUs of each device's cell pinned to CPUs of its NUMA node? A cell can have its memory on one node and its vCPUs on another. Otherwise every access of the device crosses to another node. Skipped without pinned vCPUs.", "as for [`no-guest-cell`](reasons.md#no-guest-cell)."},
		{"placement",
			"Does each device have a place? A FAIL names the devices without one, by reason. Kept devices are no failure.", "that of the [reason](reasons.md); `hook-sidecar explain` shows the plan."},
		{"layout-fit",
			"How many pairs of devices are as far from each other as on the host? A WARN where another layout has more, and a NOTE where `auto` chose this one and says why.", "choose the layout that it names; [layouts.md](layouts.md) says what each costs."},
		{"strict",
			"With `strict`, does the VM start? The FAIL is the message that virt-handler would get.", "that of each device in the message."},
		{"warnings",
			"Which other warnings does the plan have: misspelled annotations, an unknown `--keep`, fewer free ports than asked for?", "that of the [warning](reasons.md#warnings)."},
		{"requested-devices",
			"Does each device that the VMI requests have a hostdev, or an environment variable to make one?", "as for [`device-not-allocated`](reasons.md#device-not-allocated)."},
		{"variables",
			"Do the device plugins' environment variables and the domain name the same devices, other functions aside? No variables are a NOTE: [only the compute container has them](install.md#environment-variables), where `kubectl hostdev doctor` reads them.", "pass the compute container's to `hook-sidecar doctor` with `--env`. An extra device means that its plugin allocated more devices than the VMI requests."},
		{"root-complex-annotation",
			"Does the VMI ask KubeVirt to put every device on the root bus? The hook then moves none.", "remove the annotation `kubevirt.io/placePCIDevicesOnRootComplex`."},
		{"viommu",
			"Does the domain have a vIOMMU that is tested with expander buses, and does each device have an IOMMU group of its own in the guest? Only model `intel` is tested, as [`viommu`](guest.md#viommu) gives it.", "as for [`viommu`](reasons.md#viommu), [`viommu-refused`](reasons.md#viommu-refused) or [`viommu-shared-group`](reasons.md#viommu-shared-group), or remove the vIOMMU."},
		{"locked-memory",
			"How much memory does QEMU lock? A FAIL if `memtune/hard_limit` is less, which libvirt then takes as the limit. Without a vIOMMU the guest's memory once; with one, once per VFIO device, though the pages are the same. KubeVirt allows that from 1.9.0 on for the devices that the VMI names ([PR 17805](https://github.com/kubevirt/kubevirt/pull/17805)). A FAIL if the domain has more devices, such as companions, or if the vIOMMU is in `qemu:commandline`, where libvirt does not count it ([issue 18915](https://github.com/kubevirt/kubevirt/issues/18915)).", "`viommu=intel` in place of `qemu:commandline`; only devices that the VMI names; a KubeVirt that counts them."},
		{"gpudirect-clique",
			"Do the GPUs with a [clique](guest.md#gpudirect-clique) get what it promises? Skipped without cliques.", "as for [`gpudirect-clique-refused`](reasons.md#gpudirect-clique-refused) or [`hypervisor-hidden`](reasons.md#hypervisor-hidden)."},
		{"launch-security", "Is the guest confidential? With expander buses this is not tested.",
			"as for [`launch-security`](reasons.md#launch-security)."},
		{"start-time",
			"How long does a start allocate and map memory, and map BARs? Derived, not measured here: each rate is what others measured on one machine. One thread of the kernel allocates, clears and pins 4 GiB of memory per second ([Linux 5.12](https://github.com/torvalds/linux/commit/4d83de6da265)); QEMU clears 1.8 GiB of hugepages per second and vCPU, with up to 16 ([QEMU](https://gitlab.com/qemu-project/qemu/-/commit/1e356fc14bea)); with a vIOMMU memory is pinned once more per device. Up to Linux 6.14 BARs take a second per 32 GiB, by pages of 4 KiB, each time that firmware or guest turn a device on ([Linux 6.15](https://github.com/torvalds/linux/commit/0fd06844de5d)): 30 seconds per GPU of 128 GiB were [seen](https://github.com/canonical/lxd/issues/15872). The node's kernel is known from its sysfs or a snapshot's comment, QEMU's version from the machine type if that has one. A NOTE from 30 seconds on. `explain --details` prints the same.", "for BARs Linux 6.15 on the node with QEMU 9.2 or newer ([it aligns them](https://gitlab.com/qemu-project/qemu/-/commit/00b519c0bca0)), which map them by up to 1 GiB; for memory hugepages (`memory.hugepages.pageSize`); no vIOMMU where the guest does not need it."},

		{"bar-window",
			"Do the devices' 64-bit BARs fit into [the firmware's window](guest.md#mmio-window)? Each bridge's window begins at a multiple of the largest BAR under it. A FAIL loses at least one device; OVMF may then leave every device of the VM without memory. A host-passthrough or host-model CPU has the host's address bits, which a snapshot lacks: use `--phys-bits`. A named CPU model has 40, except on Red Hat's machine types (KubeVirt's QEMU), which have the host's. A second line says what BARs below 4 GiB take where [switch ports have links](guest.md#port-speed), or there is no room for them.", "`spec.domain.cpu.model: host-passthrough`; with UEFI `mmio-window=auto`; on aarch64 a larger `pcihole64`; else fewer devices. A GPU of 128 GiB can take half a minute of boot with old kernels."},
		{"io-space",
			"Does a guest have more ports with an I/O BAR than its firmware has room for? SeaBIOS has room for 14, and stops with more. OVMF has room for 9, and each device beyond loses all of its BARs.", "up to 14, boot with SeaBIOS; with more, pass fewer of these devices through."},
		{"pci-hole",
			"Is the root bus's 64-bit window off (`pcihole64` 0) while devices with 64-bit BARs are on it? It does not size the windows of expander buses.", "remove the annotation `kubevirt.io/disablePCIHole64` from the VMI."},

		{"grace",
			"Do QEMU and the guest take the elements for [Grace](grace.md)? A FAIL if a `pciBus` is not the index of an expander bus; if a nodeset names a missing cell, or a GPU's one with memory or CPUs or another GPU's; if a GPU that the kernel's `nvgrace-gpu-vfio-pci` knows names none; if `pcihole64` is no power of two or under 512 GiB (`bar-window`: under the BARs); if under an accelerated SMMUv3 a device is emulated, lacks iommufd, or is of another PCIe root than the one beside it. Skipped where no device names cells or should.", "as the line says; QEMU's words are those of 11.1."},

		{"socket-folder",
			"Can a socket be made in the hooks' directory, and is nothing else there? virt-launcher dials every file in it and starts the VM only when each has answered. doctor also accepts virt-launcher's directory, with one directory per sidecar; without the directory it is not in a sidecar.", "remove other files; mount the `emptyDir` `hook-sidecar-sockets` writable for the container's user."},
		{"socket-name",
			"Is each socket's name unique in the pod? Of two with one name virt-launcher calls only the first, and waits for the other in vain.", "hook-sidecar takes the name from `CONTAINER_NAME`, which KubeVirt sets since 1.6; give other sidecars other names. Paths have at most 107 bytes: shorten `--socket-dir`."},
		{"container-memory",
			"Is the memory limit (cgroup v2 `memory.max`) enough? A call takes [8 MiB](performance.md#the-sidecar) beside what the kernel can drop. KubeVirt gives the sidecar of a VM with dedicated CPUs 61 MiB.", "in the KubeVirt object `spec.configuration.supportContainerResources: [{type: sidecar, resources: {limits: {memory: 64Mi, cpu: 200m}}}]`."},
		{"container-cpu",
			"Is the CPU share (cgroup v2 `cpu.max`) enough to answer virt-launcher's Info call within its second?", "as for `container-memory`; KubeVirt's own 200m are enough."},
	}
}

// installationPages has a page for each check of a cluster, in the order of
// doctor.InstallationChecks.
func installationPages() []checkPage {
	return []checkPage{
		{"cluster-read",
			"This and what follows is `kubectl hostdev doctor` without a VM. May the user read all of it? What could not be read is a NOTE.", "bind the ClusterRole `hostdev-cluster` of `manifests/kubectl/clusterrole.yaml`."},
		{"kubevirt-version", "Is KubeVirt there, and which version?",
			"`kubectl get kubevirt -A` shows what its operator waits for."},
		{"feature-gates",
			"Is a gate on with which a VM can have the hook, `Sidecar` or `Plugins`? From KubeVirt 1.10 on hook sidecars alone are a NOTE: they are deprecated.", "as in [install.md](install.md#image-and-gates)."},
		{"plugin-hooks",
			"Has the Plugin `hostdev` a hook that this version of KubeVirt reads? 1.10 reads `launcherHooks` in place of `domainHooks`, so an object of 1.9 has none after an upgrade, and every VM starts without the hook.", "`kubectl apply -k manifests/overlays/kubevirt-1.10`, or `manifests/plugin` for 1.9."},
		{"plugin-pci",
			"Is any `Plugin` object in the cluster? VMs with PCI devices then fail to start ([issue 18861](https://github.com/kubevirt/kubevirt/issues/18861)); a WARN in every version, since none is known to have the fix.", "a hook sidecar beside the plugin, as in [install.md](install.md#as-a-structured-plugin)."},
		{"plugin-objects",
			"Does all that `manifests/plugin` makes exist? Without the admission policy pods get no sidecar, and without the Plugin nothing calls it.", "apply `manifests/plugin` or its overlay again."},
		{"plugin-settings",
			"Has the ConfigMap its keys, and an image of your own? Pods of labelled VMs are refused otherwise, or cannot pull the image.", "apply `manifests/plugin` again, with your image."},
	}
}
