package paste

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words/lazyregexp"
)

// listed matches the line of a device in lspci's list: 17:00.0 3D controller [0302]: NVIDIA ...,
// also after its IOMMU group, as scripts that list groups print it.
var listed = lazyregexp.New(`^\s*(?:IOMMU [Gg]roup ([0-9]+):?\s+)?(` + busID + `) (.+)$`)

// groupLine matches the line above the devices of an IOMMU group.
var groupLine = lazyregexp.New(`^\s*IOMMU [Gg]roup ([0-9]+):?$`)

// isListed reports whether a line is that of a device in lspci's list.
func isListed(line string) bool {
	colon := strings.IndexByte(line, ':')
	return colon > 0 && colon < 60 && listed.MatchString(line) && strings.Contains(line, ": ")
}

func isLspciList(t text) bool { return anyLine(t, isListed) }

// lspciReader collects the functions of lspci's list, with what -v adds under each.
type lspciReader struct {
	m       Machine
	at      int                           // the function whose line was the last
	buses   map[topology.Address][2]uint8 // of bridges: the buses under them, from and to
	verbose bool                          // something stood under a line
	inBARs  bool                          // before the capabilities, which have BARs of VFs
	off     map[topology.Address]bool     // its BARs of memory are turned off
	whole   map[topology.Address]bool     // the text is not cut before its driver
	acs     map[topology.Address]bool     // has ACS, whose registers are not read yet
}

// readLspciList reads lspci, with any of -D, -n, -nn, -v, -vv and -vvv. With -v bridges tell the
// buses under them, from which the tree follows.
func readLspciList(t text) (Machine, error) {
	r := &lspciReader{
		m:     Machine{Sources: []Source{Lspci}},
		buses: map[topology.Address][2]uint8{}, acs: map[topology.Address]bool{},
		off: map[topology.Address]bool{}, whole: map[topology.Address]bool{},
	}
	hasDetails := false
	group := ""
	for i, line := range t.lines {
		if header := groupLine.FindStringSubmatch(line); header != nil {
			group = header[1]
			continue
		}

		switch match := listed.FindStringSubmatch(line); {
		case match != nil && strings.Contains(line, ": "):
			r.end(hasDetails)
			hasDetails = false
			if err := r.device(match[2], match[3], cmp.Or(match[1], group)); err != nil {
				return Machine{}, err
			}
		case len(r.m.Functions) > 0 && strings.TrimSpace(line) != "":
			r.detail(strings.TrimSpace(line), &r.m.Functions[r.at])
			hasDetails = true
		case i < len(t.lines)-1: // -v writes an empty line after each function
			r.end(hasDetails)
		}
	}

	r.nodes()
	r.registers()
	r.drivers()
	switch {
	case len(r.buses) > 0:
		r.tree()
		r.m.Farthest = topology.NODE
	case r.m.isOnRootBus():
		r.m.placeOnRootBus()
	}

	m, err := r.m.sorted()
	if r.m.Farthest != topology.Self {
		m = m.withTree()
	}

	return m, err
}

// end notes that all that the text has of the function read last is read. A list without details
// says nothing of drivers.
func (r *lspciReader) end(hasDetails bool) {
	if hasDetails {
		r.whole[r.m.Functions[r.at].Address] = true
	}
}

// drivers notes the faults that show after the BARs: no driver, and memory that none has turned on.
func (r *lspciReader) drivers() {
	r.m.lacksDrivers(func(d *topology.Function) bool { return r.whole[d.Address] })
	for _, d := range r.m.Functions {
		if r.off[d.Address] {
			r.m.fault(d.Address, BARsOff)
		}
	}
}

// device reads the line of a device: class, ": ", vendor and device, with ids in brackets for
// -nn, or "0302: 10de:2330" for -n.
func (r *lspciReader) device(slot, rest, group string) (err error) {
	var d topology.Function
	r.inBARs = true
	if d.Address, err = lspciAddress(slot); err != nil {
		return err
	}

	if strings.Contains(rest, "(rev ff)") {
		r.m.fault(d.Address, NoAnswer)
	}

	class, name, _ := strings.Cut(rest, ": ")
	if ids := bareIDs.FindStringSubmatch(name); ids != nil && lspciID(class) != 0 {
		name = "[" + ids[1] + ":" + ids[2] + "]"
	}

	d.Class = lspciClass(class)
	d.Vendor, d.Device = idsIn(name)
	d.IOMMUGroup = groupNumber(group)
	d.IsBridge = topology.IsBridgeClass(d.Class)
	if port := emulatedPort.FindStringSubmatch(name); port != nil && d.Device == 0 {
		d.Vendor, d.Device = topology.VendorTexas, topology.DeviceXIO3130Down
		if port[1] == "Up" {
			d.Device = topology.DeviceXIO3130Up
		}
	}

	r.at = slices.IndexFunc(r.m.Functions, func(o topology.Function) bool {
		return o.Address == d.Address
	})
	if r.at >= 0 {
		return nil // a second list of the same machine
	}

	r.at = len(r.m.Functions)
	if r.m.Functions = append(r.m.Functions, d); len(r.m.Functions) > 2*maxDevices {
		return errTooMany
	}

	return nil
}

// barOf reads a BAR: Memory at 383fe000000 (64-bit, prefetchable) [size=16M]; I/O ports at 3000
// [size=128] (pciutils lspci.c, show_bases and show_size).
func barOf(value string) (bar topology.BAR, ok bool) {
	size := barSize.FindStringSubmatch(value)
	if size == nil {
		return bar, false
	}

	n, err := strconv.ParseUint(size[1], 10, 32)
	shift := 10 * (strings.Index("KMGT", size[2]) + 1)
	if size[2] == "" {
		shift = 0
	}

	return topology.BAR{
		Bytes: n << shift, IO: strings.HasPrefix(value, "I/O"),
		Is64: strings.Contains(value, "(64-bit"),
	}, err == nil
}

var (
	// barLine matches the line of a BAR: with -v it is alone, with -vv it has a number.
	barLine = lazyregexp.New(`^(?:Region [0-5]: )?((?:\[virtual\] )?(?:Memory|I/O ports) at .*)$`)
	lostBAR = lazyregexp.New(`^(?:\[virtual\] )?Memory at <(?:unassigned|ignored|broken-64-bit-slot)>`)
	// offBAR matches memory whose decoding is off. A virtual function's is always off in the host.
	offBAR = lazyregexp.New(`^Memory at .*\[disabled\]`)
)

var barSize = lazyregexp.New(`\[size=([0-9]+)([KMGT]?)\]`)

// groupNumber reads the number of an IOMMU group, nil for none.
func groupNumber(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// The ports of QEMU's switches are those of Texas Instruments' XIO3130 (hw/pci-bridge).
var emulatedPort = lazyregexp.New(`XIO3130 PCI Express Switch \((Up|Down)stream\)`)

// IsEmulatedSwitch reports whether a function is the upstream port of a switch of QEMU's.
func IsEmulatedSwitch(d *topology.Function) bool {
	return d != nil && d.Vendor == topology.VendorTexas && d.Device == topology.DeviceXIO3130Up
}

var (
	bareIDs    = lazyregexp.New(`^([0-9a-f]{4}):([0-9a-f]{4})\b`)
	bracketIDs = lazyregexp.New(`\[([0-9a-f]{4}):([0-9a-f]{4})\]`)
)

// idsIn returns the ids in the name of a device, "NVIDIA Corporation Device [10de:2330]"; without
// ids that of the vendor.
func idsIn(name string) (vendor, device uint16) {
	ids := bracketIDs.FindStringSubmatch(name)
	if ids == nil {
		return vendorOf(name), deviceOf(name)
	}
	return lspciID(ids[1]), lspciID(ids[2])
}

// detail reads a line under a device.
func (r *lspciReader) detail(line string, d *topology.Function) {
	tag, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	r.register(tag, value, line, d)
	switch {
	case tag == "NUMA node":
		r.verbose = true
		d.Node, _ = onNode(value)
	case tag == "Flags" || tag == "Control":
		r.verbose = true
	case tag == "Kernel driver in use":
		d.Driver = value
	case tag == "Kernel modules": // after the driver
		r.whole[d.Address] = true

	case tag == "Bus" && d.IsBridge:
		if buses := bridgeBuses.FindStringSubmatch(value); buses != nil {
			low, _ := strconv.ParseUint(buses[1], 16, 8)
			high, _ := strconv.ParseUint(buses[2], 16, 8)
			r.buses[d.Address] = [2]uint8{uint8(low), uint8(high)}
		}

	case strings.HasPrefix(tag, "Capabilities"):
		r.inBARs = false
	case strings.HasPrefix(line, "!!! Unknown header type"):
		r.m.fault(d.Address, NoAnswer)
	case r.inBARs && barLine.MatchString(line):
		value := barLine.FindStringSubmatch(line)[1]
		if lostBAR.MatchString(value) {
			r.m.fault(d.Address, NoBAR)
		} else if bar, isKnown := barOf(value); isKnown {
			d.BARs = append(d.BARs, bar)
		}
		if offBAR.MatchString(value) {
			r.off[d.Address] = true
		}
	case tag == "IOMMU group":
		d.IOMMUGroup = groupNumber(value)
	case tag == "LnkCap":
		if capable := linkCapability.FindStringSubmatch(value); capable != nil {
			d.MaxLink = linkOf(strings.Replace(capable[1], "GT/s", " GT/s", 1), capable[2])
		}
	}
}

var (
	bridgeBuses    = lazyregexp.New(`secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})`)
	linkCapability = lazyregexp.New(`Speed ([0-9.]+GT/s), Width (x[0-9]+)`)
)

// nodes says of which functions the NUMA node is not known: without -v of all. With -v lspci leaves
// out a node of -1 (pciutils lspci.c, show_verbose).
func (r *lspciReader) nodes() {
	for _, d := range r.m.Functions {
		if !r.verbose {
			r.m.lacksNode(d.Address)
		}
	}
}

// tree gives each function its PCIe root and bridges. The bridge above a function is the one with
// its bus directly under it; virtual functions may be on a later bus of those under it.
func (r *lspciReader) tree() {
	for i := range r.m.Functions {
		d := &r.m.Functions[i]
		at := d.Address
		for len(d.Bridges) <= maxDepth {
			above, found := r.above(at)
			if !found || slices.Contains(d.Bridges, above) {
				break
			}

			d.Bridges = append(d.Bridges, above)
			at = above
		}

		slices.Reverse(d.Bridges)
		d.Root = rootOf(at)
	}
}

// above returns the bridge above a function: of those whose buses have its own the one with the
// fewest.
func (r *lspciReader) above(a topology.Address) (bridge topology.Address, found bool) {
	least := 256
	for b, buses := range r.buses {
		count := int(buses[1]) - int(buses[0])
		isAbove := b.Domain == a.Domain && buses[0] <= a.Bus && a.Bus <= buses[1] && b.Bus < a.Bus
		if isAbove && (count < least || count == least && b.Compare(bridge) < 0) {
			bridge, least, found = b, count, true
		}
	}

	return bridge, found
}

// isOnRootBus reports whether all GPUs and NICs, and there are several, are on bus 00: that is a root
// bus, so they are as flat as can be.
func (m *Machine) isOnRootBus() bool {
	all := append(m.GPUs(), m.NICs()...)
	return len(all) > 1 && !slices.ContainsFunc(all, func(d *topology.Function) bool {
		return d.Address.Domain != 0 || d.Address.Bus != 0
	})
}

// placeOnRootBus gives each function the PCIe root whose bus it is on.
func (m *Machine) placeOnRootBus() {
	m.Farthest = topology.NODE
	for i := range m.Functions {
		m.Functions[i].Root = rootOf(m.Functions[i].Address)
	}
}

// rootOf returns the PCIe root of a function that is directly on it.
func rootOf(a topology.Address) topology.PCIeRoot {
	name := topology.Address{Domain: a.Domain, Bus: a.Bus}.String()
	return topology.PCIeRoot("pci" + strings.TrimSuffix(name, ":00.0"))
}
