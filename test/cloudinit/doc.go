// Package cloudinit boots Debian with cloud-init, with the user data that the hook
// answers and the entry of fw_cfg that it writes, and reads from the guest whether the
// topology file is where NCCL looks for it and whether the user's own data did what it
// does without the hook. `make cloudinit` runs it; get-image builds what it boots.
//
// Not KubeVirt's: the ISO is made as virt-launcher makes it, by the same program; QEMU's
// arguments are written here, the entry as libvirt passes it.
package cloudinit
