package cloudinit

// File is where NCCL looks for a topology file by default (NVIDIA/nccl
// src/graph/topo.cc, ncclTopoGetSystem).
const File = "/var/run/nvidia-topologyd/virtualTopology.xml"

// Script copies the topology file of this boot, in base64 as guest.NCCLEntry has it,
// to File. Without the entry it does nothing. A user who is not root reads the result.
const Script = `#!/bin/sh
# Copies the topology file that the hypervisor passes to where NCCL looks for it.
set -eu
umask 022
modprobe -q qemu_fw_cfg || :
entry=/sys/firmware/qemu_fw_cfg/by_name/opt/org.kubevirt.hostdev/nccl-topology/raw
[ -e "$entry" ] || exit 0
mkdir -p /var/run/nvidia-topologyd
base64 -d "$entry" > /var/run/nvidia-topologyd/virtualTopology.new
mv /var/run/nvidia-topologyd/virtualTopology.new /var/run/nvidia-topologyd/virtualTopology.xml
`

// boothook is the script as user data. cloud-init runs a boothook in every boot, before
// the modules of cloud-config, and merges it with nothing (cloudinit/handlers/boot_hook.py).
// So it also runs in a guest that has booted before, where write_files and runcmd do not:
// KubeVirt gives each start of a VM the same instance-id (pkg/cloud-init/cloud-init.go,
// cloudInitUUIDFromVMI).
const boothook = "#cloud-boothook\n" + Script
