package paste

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words/lazyregexp"
)

// The lines of lstopo's text (hwloc utils/lstopo/lstopo-text.c; hwloc_obj_type_snprintf and
// hwloc_obj_attr_snprintf).
var (
	topoObject = lazyregexp.New(`^( *)(Machine|NUMANode|HostBridge|PCIBridge|PCI|Package|` +
		`Socket|Group[0-9]*|OpenFabrics|Bridge|[0-9]+ x \{ PCI|CoProc|GPU|OSDev)\b(.*)$`)
	topoNode  = lazyregexp.New(`P#([0-9]+)`)
	topoBusID = lazyregexp.New(`(?:busid=| )(` + busID + `)`)
	topoIDs   = lazyregexp.New(`(?:id=| )([0-9a-f]{4}:[0-9a-f]{4})\b`)
	topoClass = lazyregexp.New(`\(([A-Z0-9][A-Za-z0-9 ]{1,30})\)`)
	topoName  = lazyregexp.New(`"([^"]{1,40})"$`)

	// topoRange matches functions of one model in a row, with the first and the last: 3 x { PCI
	// 0b:00.1-3 (Ethernet) }, or 0b:00.7-01.1 (lstopo-text.c, lstopo_busid_snprintf).
	topoRange = lazyregexp.New(`((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])-` +
		`(?:([0-9a-f]{2})\.)?([0-7])\b`)

	// topoCompute matches what CUDA, NVML and others call a GPU, which a display is not.
	topoCompute = lazyregexp.New(`^(?:cuda|nvml|rsmi|opencl|ze)[0-9]`)
)

func isLstopoText(t text) bool {
	return anyLine(t, func(line string) bool {
		isBridge := strings.Contains(line, "HostBridge") || strings.Contains(line, "PCIBridge")
		isDrawn := strings.Contains(line, "│")
		return isBridge && topoObject.MatchString(line) ||
			strings.Contains(line, "NUMANode L#") && !isDrawn
	})
}

// topoPlace is an object of the text, with what is known of those further in.
type topoPlace struct {
	indent int
	at     topology.Function
	nodes  []topology.NodeID // directly inside it
}

// lstopoTextReader collects the devices of lstopo's text.
type lstopoTextReader struct {
	m     Machine
	open  []topoPlace
	nodes int
	count int // of stand-ins

	isCompute map[topology.Address]bool // GPUs that CUDA and others have
}

// readLstopoText reads lstopo's text. Objects are inside those above them that are indented less.
// Before version 2 it has ids in the place of addresses.
func readLstopoText(t text) (Machine, error) {
	r := &lstopoTextReader{
		m:         Machine{Sources: []Source{Lstopo}, Farthest: topology.NODE},
		isCompute: map[topology.Address]bool{},
	}
	for _, line := range t.lines {
		object := topoObject.FindStringSubmatch(line)
		if object == nil {
			continue
		}

		indent := len(object[1])
		for len(r.open) > 0 && r.open[len(r.open)-1].indent >= indent {
			r.open = r.open[:len(r.open)-1]
		}

		if len(r.open) > maxNesting || r.count > 4*maxDevices {
			return Machine{}, errTooMany
		}

		r.object(object[2], object[3], indent)
	}

	// Displays are told from GPUs by what software calls these, so only after all lines.
	r.dropDisplays()
	if r.nodes < 2 {
		r.m.forgetNodes()
	}

	m, err := r.m.sorted()
	m.lacksRDMA(nil)
	return m.withTree(), err
}

// object reads an object: its type, and the rest of the line.
func (r *lstopoTextReader) object(kind, rest string, indent int) {
	in := topoPlace{indent: indent}
	var around *topoPlace
	if len(r.open) > 0 {
		around = &r.open[len(r.open)-1]
		in.at = around.at
	}

	r.count++

	switch kind {
	case "NUMANode":
		if number := topoNode.FindStringSubmatch(rest); number != nil {
			id, _ := strconv.Atoi(number[1])
			in.nodes = []topology.NodeID{topology.NodeID(id)}
			if around != nil {
				around.nodes = append(around.nodes, topology.NodeID(id))
			}

			r.m.addNode(topology.NodeID(id), topology.IDs{})
			r.nodes++
		}

	case "HostBridge":
		in.at.Root, in.at.Bridges = lstopoStandIn.root(r.count), nil
	case "PCIBridge", "Bridge":
		in.at.Bridges = append(slices.Clip(in.at.Bridges), lstopoStandIn.address(r.count))
	case "PCI":
		in.at = r.function(in.at, rest)
	case "OpenFabrics", "CoProc", "GPU", "OSDev":
		r.software(kind, rest, in.at)
	default:
		if strings.HasSuffix(kind, "{ PCI") {
			r.functions(in.at, rest)
		}
	}

	r.open = append(r.open, in)
}

// software reads what software calls a function: hwloc 2 writes OpenFabrics "mlx5_0", hwloc 3
// OSDev[OpenFabrics] "mlx5_0".
func (r *lstopoTextReader) software(kind, rest string, d topology.Function) {
	name := topoName.FindStringSubmatch(rest)
	if name == nil || d.Class == 0 {
		return
	}

	kinds, _, _ := strings.Cut(rest, "]")
	switch {
	case kind == "OpenFabrics" || kind == "OSDev" && strings.Contains(kinds, "OpenFabrics"):
		r.m.name(d.Address, name[1])
	case topoCompute.MatchString(name[1]):
		r.isCompute[d.Address] = true
	}
}

// functions reads functions of one model in a row.
func (r *lstopoTextReader) functions(at topology.Function, rest string) {
	span := topoRange.FindStringSubmatchIndex(rest)
	if span == nil {
		return
	}

	first, err := lspciAddress(rest[span[2]:span[3]])
	if err != nil {
		return
	}

	// Device and function count on as one number: after 00.7 comes 01.0.
	number := func(a topology.Address) int { return int(a.Device)<<3 | int(a.Function) }
	last := first
	if span[4] >= 0 {
		device, _ := strconv.ParseUint(rest[span[4]:span[5]], 16, 5)
		last.Device = uint8(device)
	}
	last.Function = rest[span[6]] - '0'

	for n := number(first); n <= number(last); n++ {
		a := first
		a.Device, a.Function = uint8(n>>3), uint8(n&7)
		r.function(at, " "+a.String()+rest[span[1]:])
	}
}

// dropDisplays drops displays (VGA), such as a server's own or QEMU's, which the text does not tell
// from graphics cards: lstopo writes vendors with -v alone. Where other GPUs are certain, those of
// which no software for computing knows are displays.
func (r *lstopoTextReader) dropDisplays() {
	mayBe := func(d topology.Function) bool {
		return d.Class>>8 == topology.ClassVGA>>8 && d.Vendor == 0 && !r.isCompute[d.Address]
	}
	isCertain := func(d topology.Function) bool { return d.IsGPU() && !mayBe(d) }
	hasGPU := slices.ContainsFunc(r.m.Functions, isCertain)

	for i := range r.m.Functions {
		switch d := &r.m.Functions[i]; {
		case mayBe(*d) && hasGPU:
			d.Class = otherClass
		case mayBe(*d):
			r.m.note("lstopo's text has no vendors, so %s may be a display and no GPU: lstopo "+
				"--of xml has them", r.m.Label(d.Address))
		}
	}
}

// function reads a PCI function.
func (r *lstopoTextReader) function(d topology.Function, rest string) topology.Function {
	d.Address = lstopoStandIn.address(r.count)
	if id := topoBusID.FindStringSubmatch(rest); id != nil {
		if a, err := lspciAddress(id[1]); err == nil {
			d.Address = a
		}
	}

	// "id=10de:2330" with -v; before version 2 alone, "PCI 10de:2330"
	if ids := topoIDs.FindStringSubmatch(rest); ids != nil {
		d.Vendor, d.Device = lspciID(ids[1][:4]), lspciID(ids[1][5:])
		d.Class = classOfID(d.Vendor)
	}

	if class := topoClass.FindStringSubmatch(rest); class != nil {
		d.Class = cmp.Or(topoClasses[class[1]], otherClass)
		if strings.HasPrefix(class[1], "Proc") {
			d.Class = topology.ClassAccelerator
		}
	}

	// The innermost object with NUMA nodes decides. With several the device is near all of them,
	// and has none.
	for i := len(r.open) - 1; i >= 0 && d.Node == (topology.Affinity{}); i-- {
		if nodes := r.open[i].nodes; len(nodes) == 1 {
			d.Node = topology.OnNode(nodes[0])
		} else if len(nodes) > 1 {
			break
		}
	}

	r.m.Functions = append(r.m.Functions, d)
	return d
}

// topoClasses are the words of lstopo's text for classes (hwloc_pci_class_string).
var topoClasses = map[string]uint32{
	"VGA": topology.ClassVGA, "3D": topology.Class3D, "Display": 0x038000,
	"Ethernet": topology.ClassEthernet, "InfiniBand": topology.ClassInfiniBand,
	"Infiniband": topology.ClassInfiniBand, "Network": 0x028000, "Fabric": 0x020800,
}

// otherClass is that of what is neither a GPU nor a NIC (pci.ids, "Unassigned class").
const otherClass = 0xff0000

// classOfID guesses the class of a device from its vendor, where a text has nothing else.
func classOfID(vendor uint16) uint32 {
	switch vendor {
	case topology.VendorNVIDIA:
		return topology.Class3D
	case topology.VendorMellanox:
		return topology.ClassEthernet
	}

	return 0
}
