package doctor

// Page is what docs/doctor.md has about a check, in Markdown. A test in test/docs writes that
// page from this table.
type Page struct {
	Name   string // of the check
	Asks   string // the question that the check answers, and what it takes for a WARN or FAIL
	Remedy string
}

// Pages has a page for each check, in the order of Checks.
func Pages() []Page {
	return []Page{
		{"sysfs", "Can the host be read, and does it show every device? A value that no kernel writes is a WARN and counts as absent; a missing device is a FAIL. Where every device is missing, this is not the VM's node.", "`kubectl hostdev snapshot VM -o host.txtar`, or `hook-sidecar snapshot` on the node, and pass the file with `--sysfs`; otherwise as for [`no-sysfs`](reasons.md#no-sysfs)."},
		{"iommu-enabled", "Is any PCI function in an IOMMU group? VFIO needs one.", "enable VT-d, AMD-Vi or the SMMU in the firmware, and boot with `intel_iommu=on` or `amd_iommu=on`."},
		{"host-numa", "Does the firmware report the NUMA nodes? With node interleaving, or NPS0 on AMD, two sockets look like one node. A NOTE with one node, if the snapshot lacks the CPU packages.", "disable node interleaving in the firmware, or choose NPS1 or more, or sub-NUMA clustering."},
		{"driver-bound", "Is each function bound to `vfio-pci`, a variant such as `mlx5_vfio_pci`, or, for the virtual function of an NVIDIA vGPU, `nvidia`?", "`driverctl set-override 0000:01:00.0 vfio-pci`, the GPU Operator's VFIO manager, or the SR-IOV operator."},
		{"iommu-group-viable", "Does a host driver hold another member of the IOMMU group? VFIO then refuses the group, and the VM does not start. Bridges, functions without a driver and functions with `pci-stub` do no harm.", "bind every function of the group to `vfio-pci`, or leave the device out; another slot or ACS makes groups smaller."},
		{"numa-node", "Does the kernel know each device's NUMA node? NVIDIA's device plugin reports -1 as node 0, and the Topology Manager then aligns CPUs and memory with node 0. KubeVirt's own plugin reports no node.", "as for [`no-host-node`](reasons.md#no-host-node), before the device plugin starts."},
		{"reset-method", "Can the kernel reset each function, so that the next guest does not find what the last one left? Kernels before 5.15 do not show it, a NOTE.", "a newer kernel may know a method (`/sys/bus/pci/devices/0000:01:00.0/reset_method`); without one, reboot the host between guests."},
		{"link-degraded", "Do the links of the device and of the switches above it run at what both ends support? A virtual function or mediated device has its physical function's link. A slot that supports less than its card is a NOTE.", "look at `lspci -vv -s 01:00.0 | grep Lnk` under load, since an idle GPU lowers its speed; for lost lanes reseat the card or its riser and check the slot's bifurcation."},
		{"acs", "Are devices isolated? Functions of different cards in one IOMMU group are a WARN: a port above them lacks ACS, and they can only go to one guest. Root on the node, or a snapshot that root took, also shows which ports send peer-to-peer traffic to the IOMMU; elsewhere that is a NOTE.", "enable ACS in the firmware, or use slots under different root ports. For GPUDirect in a VM keep ACS and use ATS; do not write one value to the ACS of every bridge."},
		{"ats", "Do devices have Address Translation Services, with which peer traffic goes straight through a switch with ACS? Seen as `acs` is.", "on ConnectX `mlxconfig -d DEVICE set ATS_ENABLED=true`, then reboot the host."},

		{"mdev-types", "Does each GPU have one type of vGPU? In equal-size mode, the default, a GPU starts only vGPUs of the first one's size. A vGPU is a mediated device or, with vendor-specific VFIO, a virtual function with a type.", "remove the vGPUs of one type as below, or use mixed-size mode where the GPU has it."},
		{"mdev-unused", "Which vGPUs does no domain use? Each keeps its GPU at its type, also after its VM is gone. With one domain this is a NOTE, since other VMs may use them; with all domains of the node a WARN.", "`echo 1 > /sys/bus/mdev/devices/UUID/remove`; for a virtual function `echo 0 > /sys/bus/pci/devices/0000:41:00.4/nvidia/current_vgpu_type`."},
		{"vgpu-capacity", "Can each GPU create the rest of the vGPUs that its type promises (`max_instance`, `available_instances`), and a GPU without vGPUs any at all (`creatable_vgpu_types`)? Skipped for MIG, and for a GPU with several types.", "end what still holds the GPU (`nvidia-smi vgpu -q`), restart `nvidia-vgpu-mgr`, or reset the GPU (`nvidia-smi --gpu-reset`)."},

		{"vmi-of-domain", "Is the domain that of the VMI, by its name (`NAMESPACE_NAME`) and KubeVirt's uid?", "`kubectl get vmi NAME -n NAMESPACE -o json`"},
		{"machine-type", "Does the machine have expander buses? Without devices it needs none.", "as for [`unsupported-machine`](reasons.md#unsupported-machine)."},
		{"guest-numa", "Does the guest have NUMA cells, on known host nodes? Without cells layout `numa` is a FAIL, `root` and `mirror` a WARN. With a VMI it names what is missing.", "as for [`no-guest-numa`](reasons.md#no-guest-numa)."},
		{"vcpu-nodes", "Are vCPUs pinned to CPUs of each device's NUMA node? Otherwise every access of the device crosses to another node. Skipped without pinned vCPUs.", "as for [`no-guest-cell`](reasons.md#no-guest-cell)."},
		{"placement", "Does each device have a place? A FAIL names the devices without one, by reason. Kept devices are no failure.", "that of the [reason](reasons.md); `hook-sidecar explain` shows the plan."},
		{"layout-fit", "How many pairs of devices are as far from each other as on the host? A WARN where another layout has more, and a NOTE where `auto` chose this one and says why.", "choose the layout that it names; [layouts.md](layouts.md) says what each costs."},
		{"strict", "With `strict`, does the VM start? The FAIL is the message that virt-handler would get.", "that of each device in the message."},
		{"warnings", "Which other warnings does the plan have: misspelled annotations, an unknown `--keep`, fewer free ports than asked for?", "that of the [warning](reasons.md#warnings)."},
		{"requested-devices", "Does each device that the VMI requests have a hostdev, or an environment variable to make one?", "as for [`device-not-allocated`](reasons.md#device-not-allocated)."},
		{"variables", "Do the device plugins' environment variables and the domain name the same devices, other functions aside? No variables are a NOTE: [only the compute container has them](install.md#environment-variables).", "pass the compute container's with `--env`. An extra device means that its plugin allocated more devices than the VMI requests."},
		{"root-complex-annotation", "Does the VMI ask KubeVirt to put every device on the root bus? The hook then moves none.", "remove the annotation `kubevirt.io/placePCIDevicesOnRootComplex`."},
		{"viommu", "Does the domain have a vIOMMU that is tested with expander buses, and does each device have an IOMMU group of its own in the guest? Only model `intel` is tested, as [`viommu`](guest.md#viommu) gives it.", "as for [`viommu`](reasons.md#viommu), [`viommu-refused`](reasons.md#viommu-refused) or [`viommu-shared-group`](reasons.md#viommu-shared-group), or remove the vIOMMU."},
		{"locked-memory", "How much memory does QEMU lock? Without a vIOMMU the guest's memory once; with one, once per VFIO device, though the pages are the same. KubeVirt allows that from 1.9.0 on for the devices that the VMI names ([PR 17805](https://github.com/kubevirt/kubevirt/pull/17805)). A FAIL if the domain has more devices, such as companions, or if the vIOMMU is in `qemu:commandline`, where libvirt does not count it ([issue 18915](https://github.com/kubevirt/kubevirt/issues/18915)).", "`viommu=intel` in place of `qemu:commandline`; only devices that the VMI names; a KubeVirt that counts them."},
		{"launch-security", "Is the guest confidential? With expander buses this is not tested.", "as for [`launch-security`](reasons.md#launch-security)."},

		{"bar-window", "Do the devices' 64-bit BARs fit into [the firmware's window](guest.md#mmio-window)? Each bridge's window begins at a multiple of the largest BAR under it. A FAIL loses at least one device; OVMF may then leave every device of the VM without memory. A host-passthrough or host-model CPU has the host's address bits, which a snapshot lacks: use `--phys-bits`. A named CPU model has 40, except on Red Hat's machine types (KubeVirt's QEMU), which have the host's.", "`spec.domain.cpu.model: host-passthrough`; with UEFI `mmio-window=auto`; else fewer devices. A GPU of 128 GiB can take half a minute of boot with old kernels."},
		{"io-space", "Does a guest have more ports with an I/O BAR than its firmware has room for? SeaBIOS has room for 14, and stops with more. OVMF has room for 9, and each device beyond loses all of its BARs.", "up to 14, boot with SeaBIOS; with more, pass fewer of these devices through."},
		{"pci-hole", "Is the root bus's 64-bit window off (`pcihole64` 0) while devices with 64-bit BARs are on it? It does not size the windows of expander buses.", "remove the annotation `kubevirt.io/disablePCIHole64` from the VMI."},

		{"socket-folder", "Can a socket be made in the hooks' directory, and is nothing else there? virt-launcher dials every file in it and starts the VM only when each has answered. doctor also accepts virt-launcher's directory, with one directory per sidecar; without the directory it is not in a sidecar.", "remove other files; mount the `emptyDir` `hook-sidecar-sockets` writable for the container's user."},
		{"socket-name", "Is each socket's name unique in the pod? Of two with one name virt-launcher calls only the first, and waits for the other in vain.", "hook-sidecar takes the name from `CONTAINER_NAME`, which KubeVirt sets since 1.6; give other sidecars other names. Paths have at most 107 bytes: shorten `--socket-dir`."},
		{"container-memory", "Is the memory limit (cgroup v2 `memory.max`) enough? A call takes [8 MiB](performance.md#the-sidecar) beside what the kernel can drop. KubeVirt gives the sidecar of a VM with dedicated CPUs 61 MiB.", "in the KubeVirt object `spec.configuration.supportContainerResources: [{type: sidecar, resources: {limits: {memory: 64Mi, cpu: 200m}}}]`."},
		{"container-cpu", "Is the CPU share (cgroup v2 `cpu.max`) enough to answer virt-launcher's Info call within its second?", "as for `container-memory`; KubeVirt's own 200m are enough."},
	}
}
