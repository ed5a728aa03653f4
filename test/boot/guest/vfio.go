//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Requests of VFIO (Linux include/uapi/linux/vfio.h): type ';', numbers from 100 on.
const (
	vfioSetIOMMU       = ';'<<8 + 100 + 2
	vfioGroupStatus    = ';'<<8 + 100 + 3
	vfioSetContainer   = ';'<<8 + 100 + 4
	vfioGroupGetDevice = ';'<<8 + 100 + 6
	vfioGetRegionInfo  = ';'<<8 + 100 + 8
	vfioMapDMA         = ';'<<8 + 100 + 13
	vfioUnmapDMA       = ';'<<8 + 100 + 14

	vfioType1v2 = 3 // VFIO_TYPE1v2_IOMMU
	vfioViable  = 1 // VFIO_GROUP_FLAGS_VIABLE
)

// passThrough binds every device with an ID, which the kernel's command line names as
// vfio=1b36:0010, to vfio-pci and then opens each, as a nested guest's QEMU would: VFIO
// wants groups for itself and interrupts that are remapped. It prints one line per
// device.
func passThrough(devices []string) error {
	chosen := chosenBy("vfio", devices)
	failed := map[string]error{}
	for _, device := range chosen {
		failed[device] = bindVFIO(device)
	}

	for _, device := range chosen {
		result := "opened"
		opened, err := vfioDevice{}, failed[device]
		if err == nil {
			opened, err = openVFIO(device)
		}

		if err = cmp.Or(err, opened.close()); err != nil {
			result = err.Error()
		}

		fmt.Println("GUEST-VFIO", filepath.Base(device), result)
	}

	return nil
}

// chosenBy returns the devices whose vendor and device a word of the kernel's command line names:
// vfio=1b36:0010.
func chosenBy(word string, devices []string) []string {
	_, after, isThere := strings.Cut(read("/proc/cmdline"), " "+word+"=")
	if !isThere {
		return nil
	}

	vendor, id, _ := strings.Cut(strings.Fields(after)[0], ":")
	return slices.DeleteFunc(slices.Clone(devices), func(device string) bool {
		return read(device, "vendor")+read(device, "device") != "0x"+vendor+"0x"+id
	})
}

func bindVFIO(device string) error {
	address := []byte(filepath.Base(device))
	if err := os.WriteFile(device+"/driver_override", []byte("vfio-pci"), 0); err != nil {
		return err
	}

	if _, err := os.Stat(device + "/driver"); err == nil {
		if err := os.WriteFile(device+"/driver/unbind", address, 0); err != nil {
			return err
		}
	}

	return os.WriteFile("/sys/bus/pci/drivers_probe", address, 0)
}

// vfioDevice is a device that VFIO has opened, with the container of its group.
type vfioDevice struct{ container, group, device *os.File }

func (v vfioDevice) close() (err error) {
	for _, file := range []*os.File{v.device, v.group, v.container} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}

	return err
}

// openVFIO does what QEMU does up to the device's own file (hw/vfio/container.c). What it has
// opened is closed where it fails.
func openVFIO(device string) (v vfioDevice, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
			v = vfioDevice{}
		}
	}()

	group, err := os.Readlink(device + "/iommu_group")
	if err != nil {
		return v, err
	}

	if v.container, err = os.OpenFile("/dev/vfio/vfio", os.O_RDWR, 0); err != nil {
		return v, err
	}

	if v.group, err = openSoon("/dev/vfio/" + filepath.Base(group)); err != nil {
		return v, err
	}

	status := [2]uint32{8, 0}
	if _, err := request(v.group, vfioGroupStatus, unsafe.Pointer(&status)); err != nil {
		return v, fmt.Errorf("read the group's status: %w", err)
	}
	if status[1]&vfioViable == 0 {
		return v, errors.New("the group is not viable")
	}

	number := int32(v.container.Fd())
	if _, err := request(v.group, vfioSetContainer, unsafe.Pointer(&number)); err != nil {
		return v, fmt.Errorf("set the group's container: %w", err)
	}

	if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, v.container.Fd(), vfioSetIOMMU,
		vfioType1v2); code != 0 {
		return v, fmt.Errorf("set the container's IOMMU: %w", code)
	}

	name := append([]byte(filepath.Base(device)), 0)
	file, err := request(v.group, vfioGroupGetDevice, unsafe.Pointer(&name[0]))
	if err != nil {
		return v, fmt.Errorf("open the device: %w", err)
	}

	v.device = os.NewFile(file, filepath.Base(device))
	return v, nil
}

// openSoon opens a file that the kernel is about to make.
func openSoon(name string) (file *os.File, err error) {
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		if file, err = os.OpenFile(name, os.O_RDWR, 0); err == nil {
			return file, nil
		}
	}
	return nil, err
}

func request(file *os.File, what uintptr, argument unsafe.Pointer) (uintptr, error) {
	result, _, code := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), what, uintptr(argument))
	if code != 0 {
		return 0, code
	}
	return result, nil
}
