package paste

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

var ncclTag = lazyregexp.New(`<system[ >/]`)

func isNCCLFile(t text) bool {
	return strings.Contains(t.all, "<system") && ncclTag.MatchString(t.all)
}

// ncclReader collects the devices of a topology file of NCCL or RCCL (src/graph/xml.cc).
type ncclReader struct{ m Machine }

// ncclPlace is an open element, with what is known of a device inside it.
type ncclPlace struct {
	at topology.Function
}

// readNCCLFile reads the file that NCCL_TOPO_DUMP_FILE names, or one that is made for
// NCCL_TOPO_FILE. NCCL has the CPU of a device in the place of its PCIe root
// (ncclTopoGetXmlFromSys).
func readNCCLFile(t text) (Machine, error) {
	r := &ncclReader{Machine{Sources: []Source{NCCL}, Farthest: topology.PHB}}
	if err := walkXML(t, ncclTag, r.enter); err != nil {
		return Machine{}, err
	}

	r.dropBridges()
	m, err := r.m.sorted()
	if err != nil {
		return Machine{}, err
	}

	hasClass := func(d topology.Function) bool { return d.Class != 0 }
	if !slices.ContainsFunc(m.Functions, hasClass) {
		m.note("the file has no classes, by which GPUs and NICs are recognised: NCCL adds them " +
			"in the file of NCCL_TOPO_DUMP_FILE")
	}

	return m.withTree(), nil
}

// dropBridges drops switches whose address something else has, as in files that were written by
// hand. Only their links get lost.
func (r *ncclReader) dropBridges() {
	users := map[topology.Address]int{}
	for _, d := range r.m.Functions {
		users[d.Address]++
	}

	r.m.Functions = slices.DeleteFunc(r.m.Functions, func(d topology.Function) bool {
		return d.IsBridge && users[d.Address] > 1
	})
}

// enter reads an element that is inside another.
func (r *ncclReader) enter(e element, around *ncclPlace) (in ncclPlace, err error) {
	in = *around
	switch e.Name.Local {
	case "cpu":
		err = r.cpu(e, &in.at)
	case "pci":
		err = r.pci(e, &in.at)
	case "nvlink":
		r.m.link(in.at.Address)
	case "xgmi":
		r.m.linkXGMI(in.at.Address)
	case "c2c":
		r.m.linkC2C(in.at.Address)
	case "net":
		if name := e.attribute("name"); name != "" && r.m.Names[in.at.Address] == "" &&
			!in.at.IsBridge {
			r.m.name(in.at.Address, name)
		}
	}

	switch {
	case err != nil:
		return in, err
	case len(in.at.Bridges) > maxDepth:
		return in, fmt.Errorf("more than %d bridges above %s", maxDepth, in.at.Address)
	case len(r.m.Functions) > 2*maxDevices || len(r.m.NUMA) > maxDevices:
		return in, errTooMany
	}

	return in, nil
}

// cpu reads a CPU, which is a NUMA node. No more is known of the PCIe roots under it.
func (r *ncclReader) cpu(e element, at *topology.Function) (err error) {
	node := e.attribute("numaid")
	at.Root = topology.PCIeRoot("cpu " + e.attribute("host_hash") + node)
	if node == "-1" {
		return nil
	}

	if at.Node, err = onNode(node); err != nil {
		return err
	}

	if id, _ := at.Node.Node(); !r.m.hasNode(id) {
		r.m.addNode(id, maskIDs(e.attribute("affinity")))
	}

	return nil
}

// pci reads a switch or a device. Of a switch the file has the upstream port; stand-ins for the
// ports above and below make the path one of sysfs. Older versions write no IDs.
func (r *ncclReader) pci(e element, at *topology.Function) (err error) {
	if at.Address, err = topology.ParseAddress(e.attribute("busid")); err != nil {
		return err
	}

	var numbers [3]uint64
	for i, name := range []string{"class", "vendor", "device"} {
		value := cmp.Or(e.attribute(name), "0")
		if numbers[i], err = strconv.ParseUint(strings.TrimPrefix(value, "0x"), 16,
			24); err != nil {
			return fmt.Errorf("%s: %s: invalid number %q: want hex", at.Address, name,
				words.Misread(value))
		}
	}

	at.Bridges = append(slices.Clip(at.Bridges), portOf(at.Address))
	at.Class, at.Vendor, at.Device = uint32(numbers[0]), uint16(numbers[1]), uint16(numbers[2])
	at.MaxLink = linkOf(e.attribute("link_speed"), e.attribute("link_width"))
	at.IsBridge = topology.IsBridgeClass(at.Class)
	r.m.Functions = append(r.m.Functions, *at)
	if at.IsBridge {
		at.Bridges = append(slices.Clip(at.Bridges), at.Address)
	}

	return nil
}

// portOf returns the stand-in of the port above a function of NCCL's file.
func portOf(a topology.Address) topology.Address {
	a.Domain = ^a.Domain
	return a
}

// linkOf reads a link's speed, such as "32.0 GT/s PCIe" or "16 GT/s", and its lanes; nil for one
// that is not known.
func linkOf(speed, width string) *topology.Link {
	s, err := topology.ParseLinkSpeed(speed)
	if err != nil {
		return nil
	}

	lanes, _ := strconv.Atoi(strings.TrimPrefix(width, "x"))
	if lanes < 0 || lanes > 64 {
		lanes = 0
	}

	return &topology.Link{Speed: s, Width: lanes}
}
