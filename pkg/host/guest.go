package host

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Guest holds the PCI functions that a guest shows.
type Guest struct {
	Source  string            // "lspci" or "snapshot"
	Devices []topology.Device // sorted by address
	IDs     bool              // Vendor and Device are known: lspci prints them only with -n or -nn
	Paths   bool              // Root and Bridges are known: lspci does not print them
}

// Device returns the function at a, or nil when the guest has none.
func (g Guest) Device(a topology.Address) *topology.Device {
	host := topology.Host{Devices: g.Devices}
	return host.Device(a)
}

// ReadGuest reads a snapshot of a guest's /sys, or the output of lspci -Dvmm in
// the guest, with -n or -nn for IDs.
func ReadGuest(data []byte) (Guest, []reasons.Problem, error) {
	if bytes.HasPrefix(data, []byte("-- ")) || bytes.Contains(data, []byte("\n-- ")) {
		return guestSnapshot(data)
	}
	guest, err := parseLspci(string(data))
	return guest, nil, err
}

func guestSnapshot(data []byte) (Guest, []reasons.Problem, error) {
	fsys, err := ParseSnapshot(data)
	if err != nil {
		return Guest{}, nil, fmt.Errorf("snapshot of the guest: %w", err)
	}
	host, problems := Read(fsys, nil, All)
	return Guest{Source: "snapshot", Devices: host.Devices, IDs: true, Paths: true}, problems, nil
}

// maxLspciDevices is the number of functions in a PCI domain; guests have one domain.
const maxLspciDevices = 65536

// parseLspci reads records of lines "Tag:\tvalue", separated by empty lines
// (pciutils lspci.8, "Verbose format (-vmm)").
func parseLspci(text string) (Guest, error) {
	guest := Guest{Source: "lspci", IDs: true}
	var at *topology.Device
	for number, line := range strings.Split(text, "\n") {
		tag, value, found := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case tag == "":
			at = nil
			continue
		case !found:
			return Guest{}, fmt.Errorf("line %d: neither lspci -Dvmm nor a snapshot", number+1)
		}
		if at == nil {
			if tag != "Slot" || len(guest.Devices) == maxLspciDevices {
				return Guest{}, fmt.Errorf("line %d: not lspci -Dvmm, where a device begins with Slot", number+1)
			}
			address, err := lspciSlot(value)
			if err != nil {
				return Guest{}, fmt.Errorf("line %d: %w", number+1, err)
			}
			guest.Devices = append(guest.Devices, topology.Device{Address: address})
			at = &guest.Devices[len(guest.Devices)-1]
			continue
		}
		known, err := lspciField(at, tag, value)
		if err != nil {
			return Guest{}, fmt.Errorf("line %d: %w", number+1, err)
		}
		guest.IDs = guest.IDs && known
	}
	if len(guest.Devices) == 0 {
		return Guest{}, errors.New("no devices: neither lspci -Dvmm nor a snapshot")
	}
	slices.SortFunc(guest.Devices, func(a, b topology.Device) int { return a.Address.Compare(b.Address) })
	for i := range guest.Devices[1:] {
		if guest.Devices[i].Address == guest.Devices[i+1].Address {
			return Guest{}, fmt.Errorf("%s appears twice", guest.Devices[i].Address)
		}
	}
	return guest, nil
}

// lspciSlot reads an address. Without -D, lspci omits domain 0000.
func lspciSlot(value string) (topology.Address, error) {
	if strings.Count(value, ":") == 1 {
		value = "0000:" + value
	}
	return topology.ParseAddress(value)
}

// lspciField stores a field in d; false when an ID should be there and is a name.
func lspciField(d *topology.Device, tag, value string) (bool, error) {
	switch tag {
	case "Vendor":
		return lspciID(value, &d.Vendor), nil
	case "Device":
		return lspciID(value, &d.Device), nil
	case "NUMANode":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > maxNode {
			return true, invalidNode(value)
		}
		d.Node = topology.OnNode(topology.NodeID(n))
	}
	return true, nil
}

// lspciID reads "10de" as -n prints it, or "NVIDIA Corporation [10de]" of -nn.
func lspciID(value string, id *uint16) bool {
	if open := strings.LastIndexByte(value, '['); open >= 0 {
		value = strings.TrimSuffix(value[open+1:], "]")
	}
	n, err := strconv.ParseUint(value, 16, 16)
	*id = uint16(n)
	return err == nil && len(value) == 4
}
