// Package cloudinit adds to a VM's cloud-init data what copies the topology file from
// QEMU's fw_cfg device to where NCCL looks for it. Bytes in, bytes out.
package cloudinit
