// Package boot starts domains in QEMU, with the firmware and a Linux kernel but
// without the hardware: an emulated device replaces each passthrough device and
// has its host address as serial number. What the guest's sysfs shows of it is
// compared with the plan, here and by the program's own `explain --guest`. It
// runs under TCG, so that it runs anywhere.
//
// libvirt makes the command line. Every option that decides where a device sits
// is used as it is. The devices themselves are replaced, and so are backends of
// disks and NICs, memory sizes and the CPU model.
package boot
