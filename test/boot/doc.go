// Package boot starts domains in QEMU, with the firmware and a Linux kernel but
// without the hardware: each passthrough device is replaced by an emulated one
// that tells the guest the host's address of the device, and what the guest's
// sysfs shows of it is compared with the plan, here and by the program's own
// `explain --guest`. It runs under TCG, so that it runs anywhere.
//
// libvirt makes the command line, and of that everything that says where a
// device stands is used as it is. Replaced are the devices behind it: backends
// of disks and NICs, memory sizes, the CPU model.
package boot
