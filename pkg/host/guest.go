package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Guest holds the PCI functions that a guest shows, and what else the source has of them.
type Guest struct {
	Source  string            // "lspci", "snapshot", "lstopo", "nccl" or "nvidia-smi"
	Devices []topology.Device // sorted by address; those of nvidia-smi have none, and are in its order
	Names   []string          // of the devices, from nvidia-smi: "GPU0", or of a NIC that of its driver
	IDs     bool              // Vendor and Device are known: lspci prints them only with -n or -nn
	Nodes   bool              // Node is known, but for nvidia-smi's NICs; see KnowsNode
	Paths   bool              // Root and Bridges are known, from NCCL only those that Seen returns

	tree  *topology.Tree               // nil where the source shows no bridges
	types map[[2]int]topology.PathType // between devices, from nvidia-smi
}

// Sources that differ from the others in what they show.
const (
	FromLstopo    = "lstopo"
	FromNCCL      = "nccl"
	FromNVIDIASMI = "nvidia-smi"
)

// Shows reports whether the source shows each device like d, which may be nil, that the guest has:
// lstopo shows only classes that it finds important, the others what they use.
func (g Guest) Shows(d *topology.Device) bool {
	switch g.Source {
	case FromLstopo:
		return d.IsPaired()
	case FromNCCL, FromNVIDIASMI:
		return false
	}
	return true
}

// Device returns the function at a, or nil when the guest has none.
func (g Guest) Device(a topology.Address) *topology.Device {
	host := topology.Host{Devices: g.Devices}
	return host.Device(a)
}

// KnowsNode reports whether the source has the NUMA node of a device, which may be none.
func (g Guest) KnowsNode(d *topology.Device) bool {
	return g.Nodes && !(g.Source == FromNVIDIASMI && d.IsNIC())
}

// PathType returns the path type between the devices at two positions, if it is known.
func (g Guest) PathType(i, j int) (between topology.PathType, known bool) {
	if g.tree == nil {
		between, known = g.types[[2]int{i, j}]
		return between, known
	}
	a, b := topology.PCIDevice(g.Devices[i].Address), topology.PCIDevice(g.Devices[j].Address)
	return g.tree.PathType(a, b), true
}

// Seen returns the part of a path that the source shows. NCCL leaves out the root and, going up
// from the device, every other bridge, so that of a switch it shows the upstream port
// (src/graph/xml.cc, ncclTopoGetXmlFromSys).
func (g Guest) Seen(root topology.PCIeRoot, bridges []topology.Address) (topology.PCIeRoot, []topology.Address) {
	if g.Source != FromNCCL {
		return root, bridges
	}
	var switches []topology.Address
	for i := len(bridges) % 2; i+1 < len(bridges); i += 2 {
		switches = append(switches, bridges[i])
	}
	return "", switches
}

// ReadGuest reads what a guest's user can paste: a snapshot of the guest's /sys, or the output of
// lspci -Dvmm (with -n or -nn for IDs), lstopo --of xml, nvidia-smi topo -m, or NCCL's topology
// file. It recognises the format by the content.
func ReadGuest(data []byte) (guest Guest, problems []reasons.Warning, err error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // of Windows
	switch {
	case bytes.HasPrefix(data, []byte("-- ")) || bytes.Contains(data, []byte("\n-- ")):
		return guestSnapshot(data)
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")):
		guest, err = parseGuestXML(data)
	case isMatrix(withoutEscapes(string(data))):
		guest, err = parseMatrix(withoutEscapes(string(data)))
		return guest, nil, err
	default:
		guest, err = parseLspci(string(data))
	}
	if err != nil {
		return Guest{}, nil, err
	}
	slices.SortStableFunc(guest.Devices, func(a, b topology.Device) int { return a.Address.Compare(b.Address) })
	for i := range guest.Devices[1:] {
		if guest.Devices[i].Address == guest.Devices[i+1].Address {
			return Guest{}, nil, fmt.Errorf("%s appears twice", guest.Devices[i].Address)
		}
	}
	return guest.withTree(), nil, nil
}

func guestSnapshot(data []byte) (Guest, []reasons.Warning, error) {
	fsys, err := ParseSnapshot(data)
	if err != nil {
		return Guest{}, nil, fmt.Errorf("snapshot of the guest: %w", err)
	}
	guest, problems := ReadGuestSysfs(fsys)
	return guest, problems, nil
}

// ReadGuestSysfs reads the guest's own sysfs.
func ReadGuestSysfs(fsys fs.FS) (Guest, []reasons.Warning) {
	host, problems := Read(fsys, nil, All)
	return Guest{Source: "snapshot", Devices: host.Devices, IDs: true, Nodes: true, Paths: true}.withTree(), problems
}

func (g Guest) withTree() Guest {
	if !g.Paths {
		return g
	}
	ids := make([]topology.DeviceID, len(g.Devices))
	for i, d := range g.Devices {
		ids[i] = topology.PCIDevice(d.Address)
	}
	host := topology.Host{Devices: g.Devices}
	g.tree = host.Tree(ids)
	return g
}

// maxGuestDevices is the number of functions in a PCI domain; guests have one domain.
const maxGuestDevices = 65536

// parseLspci reads records of lines "Tag:\tvalue", separated by empty lines
// (pciutils lspci.8, "Verbose format (-vmm)").
func parseLspci(text string) (Guest, error) {
	guest := Guest{Source: "lspci", IDs: true, Nodes: true}
	var at *topology.Device
	for number, line := range strings.Split(text, "\n") {
		tag, value, found := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case tag == "":
			at = nil
			continue
		case !found:
			return Guest{}, fmt.Errorf("line %d: neither lspci -Dvmm, lstopo --of xml, nvidia-smi topo -m, NCCL's topology file nor a snapshot", number+1)
		}
		if at == nil {
			if tag != "Slot" || len(guest.Devices) == maxGuestDevices {
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
		return Guest{}, errors.New("no devices in it")
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
	case "Class":
		var class uint16
		lspciID(value, &class)
		d.Class = uint32(class) << 8
	case "Vendor":
		return lspciID(value, &d.Vendor), nil
	case "Device":
		return lspciID(value, &d.Device), nil
	case "NUMANode":
		node, err := parseNode(value)
		if err != nil {
			return true, err
		}
		d.Node = topology.OnNode(node)
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
