package boot

import (
	"encoding/json"
	"fmt"
	"strings"

	"hook-sidecar/pkg/topology"
)

// standIn is an emulated device that replaces passthrough devices. The guest can
// read which device it replaces.
type standIn struct {
	ids        string // vendor:device
	properties func(id string) (map[string]any, error)
	bytes      func(alias string) uint64 // of its memory backend; nil if it needs none
	hasDisk    bool                      // it has a disk behind it
}

// nvme returns a controller whose serial number is the device's id. Its driver has to use
// interrupts and DMA before the guest can read the number.
func nvme() standIn {
	return standIn{ids: "1b36:0010", properties: func(id string) (map[string]any, error) {
		return map[string]any{
			"driver": "nvme", "serial": Label(id), "max_ioqpairs": 1, "msix_qsize": 2,
		}, nil
	}}
}

// peer returns a controller as nvme does, with memory that others may reach (CMB) and with a disk,
// whose I/O may use the memory of others.
func peer() standIn {
	disk := nvme()
	withMemory := func(id string) (map[string]any, error) {
		properties, err := disk.properties(id)
		properties["cmb_size_mb"] = 64
		return properties, err
	}

	return standIn{ids: disk.ids, hasDisk: true, properties: withMemory}
}

// cardReader returns a device that has one small BAR and needs no driver, so that hundreds of them
// can be booted. One of its registers is the device's PCI address (hook-sidecar/test/boot/guest,
// cardreader.go).
func cardReader() standIn {
	return standIn{ids: "1b36:0007", properties: func(id string) (map[string]any, error) {
		a, err := topology.ParseAddress(id)
		if err != nil {
			return nil, err
		}

		packed := uint64(a.Domain)<<32 | uint64(a.Bus)<<8 | uint64(a.Device)<<3 | uint64(a.Function)
		return map[string]any{"driver": "sdhci-pci", "maxcurr": packed}, nil
	}}
}

// largeBAR returns shared memory with a 64-bit prefetchable BAR of 2^bits bytes and,
// as data-centre GPUs, no I/O BAR (QEMU hw/misc/ivshmem-pci.c). QEMU reserves no
// memory for it. Nothing in it identifies the device that it replaces.
func largeBAR(bits int) standIn {
	return standIn{ids: "1af4:1110", bytes: func(string) uint64 {
		return 1 << bits
	}, properties: func(string) (map[string]any, error) {
		return map[string]any{"driver": "ivshmem-plain"}, nil
	}}
}

// withIO returns a test device with an I/O BAR and a small memory BAR (QEMU
// hw/misc/pci-testdev.c).
func withIO() standIn {
	return standIn{ids: "1b36:0005", properties: func(string) (map[string]any, error) {
		return map[string]any{"driver": "pci-testdev"}, nil
	}}
}

// replace replaces a device and keeps its address.
func replace(given string, instead standIn) ([]string, error) {
	var device map[string]any
	if err := json.Unmarshal([]byte(given), &device); err != nil {
		return nil, fmt.Errorf("-device %s: %w", given, err)
	}

	driver := fmt.Sprint(device["driver"])
	var backend []string
	switch {
	case strings.HasPrefix(driver, "vfio-pci"):
		replacement, err := instead.properties(hostID(device))
		if err != nil {
			return nil, fmt.Errorf("-device %s: %w", given, err)
		}

		for _, key := range []string{"id", "bus", "addr", "multifunction"} {
			if value, given := device[key]; given {
				replacement[key] = value
			}
		}

		if instead.bytes != nil {
			name, size := fmt.Sprint("memory-",
				device["id"]), instead.bytes(fmt.Sprint(device["id"]))
			backend = []string{
				"-object", fmt.Sprintf("memory-backend-ram,id=%s,size=%d,reserve=off", name, size),
			}

			replacement["memdev"] = name
		}

		if instead.hasDisk {
			name := fmt.Sprint("disk-", device["id"])
			backend = []string{
				"-blockdev", "driver=null-co,read-zeroes=on,size=1048576,node-name=" + name,
			}

			replacement["drive"] = name
		}

		device = replacement

	case device["drive"] != nil:
		name := fmt.Sprint("disk-", device["id"])
		backend = []string{"-blockdev", "driver=null-co,read-zeroes=on,node-name=" + name}
		device["drive"] = name
		if strings.HasPrefix(driver, "virtio-blk") {
			device["serial"] = fmt.Sprint(device["id"])
		}

	case strings.HasSuffix(driver, "-iommu"), driver == "arm-smmuv3":
	case device["bus"] == nil, device["chardev"] != nil:
		return nil, nil // not a PCI device: a serial port, a channel, a disk's LUN
	}

	text, err := json.Marshal(device)
	if err != nil {
		return nil, err
	}

	return append(backend, "-device", string(text)), nil
}

// hostID returns the address or UUID of the device on the host.
func hostID(device map[string]any) string {
	if path, ok := device["sysfsdev"].(string); ok {
		return path[strings.LastIndex(path, "/")+1:]
	}
	return fmt.Sprint(device["host"])
}

// serialLength is how long the serial number of an NVMe controller can be (NVM
// Express base specification, identify controller, SN). A UUID is cut.
const serialLength = 20

// isStandIn reports whether the ids are a stand-in's.
func isStandIn(ids string) bool { return ids == nvme().ids || ids == cardReader().ids }
