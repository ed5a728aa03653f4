package host

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Guest holds the PCI functions that a guest shows, and what else the source has of them. Those of
// nvidia-smi have no addresses and are in its order. An id of 0 is unknown.
type Guest struct {
	topology.Host
	Source string   // "lspci", "snapshot", "lstopo", "nccl" or "nvidia-smi"
	Names  []string // of the functions, from nvidia-smi: "GPU0", or of a NIC that of its driver

	HasNodes bool // Node is known, but for nvidia-smi's NICs; see KnowsNode
	// Farthest is the path type of which farther ones cannot be told apart, but by NUMA nodes; Self
	// where no path types are known.
	Farthest topology.PathType

	tree  *topology.Tree               // nil where the source shows no bridges
	types map[[2]int]topology.PathType // between functions, from nvidia-smi
}

// Sources that differ from the others in what they show.
const (
	FromLstopo    = "lstopo"
	FromNCCL      = "nccl"
	FromNVIDIASMI = "nvidia-smi"
)

// Shows reports whether the source shows each device like d, which may be nil, that the guest has:
// lstopo shows only classes that it finds important, NCCL and nvidia-smi what they use.
func (g Guest) Shows(d *topology.Device) bool {
	return g.Source == FromLstopo && d.IsPaired() || g.Source == "lspci" || g.Source == "snapshot"
}

// KnowsNode reports whether the source has the NUMA node of a device, which may be none.
func (g Guest) KnowsNode(d *topology.Device) bool {
	return g.HasNodes && !(g.Source == FromNVIDIASMI && d.IsNIC())
}

// PathType returns the path type between the devices at two positions, if it is known.
func (g Guest) PathType(i, j int) (between topology.PathType, known bool) {
	if g.tree == nil {
		between, known = g.types[[2]int{i, j}]
		return between, known
	}
	return g.tree.PathType(topology.PCIDevice(g.Devices[i].Address),
		topology.PCIDevice(g.Devices[j].Address)), true
}

// maxDevices is far above the devices of a guest, and limits the square of them.
const maxDevices = 1024

var errTooMany = fmt.Errorf("more than %d devices", maxDevices)

var (
	underline = regexp.MustCompile(`\x1b\[[0-9;]*m`) // of nvidia-smi's first row
	// of what is pasted into a thread or a program
	quotation = regexp.MustCompile("(?m)^[ \t]*(> ?|`)")
)

// ReadGuest reads what a guest's user can paste: a snapshot of the guest's /sys, or the output of
// lspci -Dvmm (with -n or -nn for IDs), lstopo --of xml, nvidia-smi topo -m, or NCCL's topology
// file. It recognises the format by the content.
func ReadGuest(data []byte) (guest Guest, problems []reasons.Warning, err error) {
	// of Windows
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		guest, err = parseGuestXML(text)
		return guest, nil, err
	}

	plain := quotation.ReplaceAllString(underline.ReplaceAllString(text, ""), "")
	lines := strings.Split(plain, "\n")
	header := slices.IndexFunc(lines, isHeader)
	other := otherTool(plain)
	switch {
	case strings.HasPrefix(text, "-- ") || strings.Contains(text, "\n-- "):
		fsys, err := ParseSnapshot(data)
		if err != nil {
			return Guest{}, nil, fmt.Errorf("snapshot of the guest: %w", err)
		}
		guest, problems = ReadGuestSysfs(fsys)
		return guest, problems, nil

	case other != "":
		return Guest{}, nil, errors.New(other)
	case header >= 0:
		guest, err = parseMatrix(lines, header)
		return guest, nil, err

	default:
		guest, err = parseLspci(text)
	}

	return guest, nil, err
}

// otherTools are outputs that people paste in the place of those that can be read, by a pattern,
// and why not. An output that can be read has none of the patterns.
var otherTools = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`\bNCCL (INFO|WARN|TRACE) `),
		"NCCL's log, which lacks the devices' ids: pass the file of NCCL_TOPO_DUMP_FILE"},
	{regexp.MustCompile(`(?m)^=+ (ROCm System Management|Link Type between|Weight between|Hops between)|^LINK TYPE TABLE`),
		"the topology of rocm-smi or amd-smi, which has no paths through PCI Express: lstopo --of " +
			"xml has them"},
	{regexp.MustCompile(`(?m)^ *-\[[0-9a-f]{4}(:[0-9a-f]{2})?`),
		"the tree of lspci -t, which lacks ids: pass lspci -Dvmmnn"},
	{regexp.MustCompile(`(?m)^([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] \S`),
		"lspci without -vmm: pass lspci -Dvmmnn"},
	{regexp.MustCompile(`(?m)^\| NVIDIA-SMI |^GPU [0-9]+: .*\(UUID`),
		"nvidia-smi without topo -mp, which has no paths"},
	{regexp.MustCompile(`(?m)^Machine \(|^ +(Package|NUMANode|HostBridge) L#[0-9]`),
		"lstopo's text, which lacks ids: pass lstopo --of xml"},
}

// otherTool says why a text cannot be read, where a tool has written it that shows too little; ""
// of any other text.
func otherTool(text string) string {
	for _, tool := range otherTools {
		if tool.pattern.MatchString(text) {
			return tool.why
		}
	}
	return ""
}

// ReadGuestSysfs reads the guest's own sysfs.
func ReadGuestSysfs(fsys fs.FS) (Guest, []reasons.Warning) {
	host, problems := Read(fsys, nil, All)
	return Guest{Host: *host, Source: "snapshot", HasNodes: true}.withTree(), problems
}

// withTree adds the tree of the functions, which are sorted, and whose Root and Bridges are known.
// NCCL has the CPU of a device in the place of its PCIe root (src/graph/xml.cc,
// ncclTopoGetXmlFromSys).
func (g Guest) withTree() Guest {
	ids := topology.Map(g.Devices, func(d topology.Device) topology.DeviceID {
		return topology.PCIDevice(d.Address)
	})

	g.tree, g.Farthest = g.Tree(ids), topology.NODE
	if g.Source == FromNCCL {
		g.Farthest = topology.PHB
	}

	return g
}

// sort sorts the functions by their addresses, by which a Host finds them, and which have to
// differ.
func (g *Guest) sort() error {
	if len(g.Devices) == 0 {
		return errors.New("no PCI devices in it; lstopo on Windows reads none")
	}

	slices.SortFunc(g.Devices, func(a, b topology.Device) int {
		return a.Address.Compare(b.Address)
	})

	for i := range g.Devices[1:] {
		if g.Devices[i].Address == g.Devices[i+1].Address {
			return fmt.Errorf("%s appears twice", g.Devices[i].Address)
		}
	}

	return nil
}

// parseLspci reads records of lines "Tag:\tvalue", separated by empty lines
// (pciutils lspci.8, "Verbose format (-vmm)").
func parseLspci(text string) (Guest, error) {
	guest := Guest{Source: "lspci", HasNodes: true}
	for record := range strings.SplitSeq(text, "\n\n") {
		fields := map[string]string{}
		for line := range strings.Lines(record) {
			tag, value, _ := strings.Cut(line, ":")
			fields[tag] = strings.TrimSpace(value)
		}

		if strings.TrimSpace(record) == "" {
			continue
		}

		d, err := lspciDevice(fields)
		if err != nil {
			return Guest{}, fmt.Errorf("device %d: %w", len(guest.Devices)+1, err)
		}

		if guest.Devices = append(guest.Devices, d); len(guest.Devices) > maxDevices {
			return Guest{}, errTooMany
		}
	}

	return guest, guest.sort()
}

func lspciDevice(fields map[string]string) (d topology.Device, err error) {
	slot, node := fields["Slot"], fields["NUMANode"]
	if slot == "" {
		return d,
			errors.New("no Slot: neither lspci -Dvmm, lstopo --of xml, nvidia-smi topo -m, NCCL's " +
				"topology file nor a snapshot")
	}

	if strings.Count(slot, ":") == 1 { // without -D
		slot = "0000:" + slot
	}

	d.Address, err = topology.ParseAddress(slot)
	d.Class, d.Vendor, d.Device = uint32(lspciID(fields["Class"]))<<8, lspciID(fields["Vendor"]), lspciID(fields["Device"])
	if err == nil && node != "" {
		d.Node, err = onNode(node)
	}

	return d, err
}

// lspciID reads "10de" as -n prints it, or "NVIDIA Corporation [10de]" of -nn; 0 for a name alone.
func lspciID(value string) uint16 {
	id := value[strings.LastIndexByte(value, '[')+1:]
	n, err := parseHex(strings.TrimSuffix(id, "]"), 16)
	if err != nil || len(strings.TrimSuffix(id, "]")) != 4 {
		return 0
	}

	return uint16(n)
}
