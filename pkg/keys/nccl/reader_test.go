package nccl_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// node is an element of the file as NCCL reads it.
type node struct {
	name     string
	attrs    map[string]string
	parent   *node
	children []*node
}

// The limits of NCCL's own reader (NVIDIA/nccl src/graph/xml.h and topo.h). A
// value may have 253 bytes: the buffer of 255 also holds the quote.
const (
	maxValue    = 253
	maxAttrs    = 16
	maxChildren = 640
	maxNodes    = 256
)

var (
	tagPattern     = regexp.MustCompile(`^<(/?)([^ \n\r/>=]+)((?: [^ \n\r/>=]+="[^"]*")*)(/?)>`)
	attrPattern    = regexp.MustCompile(` ([^ =]+)="([^"]*)"`)
	addressPattern = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
	maskPattern    = regexp.MustCompile(`^[0-9a-f]{1,8}(,[0-9a-f]{8})*$`)
)

// read reads a topology file by the rules of NCCL's reader (xml.cc,
// xmlGetNode and the loaders of each element), which is not an XML parser: only
// spaces and newlines between elements, one space before each attribute, no
// declaration, no references. It is stricter where NCCL ignores something: an
// unknown element or attribute is an error here.
func read(text string) (*node, error) {
	top := &node{}
	at, nodes := top, 0
	for {
		text = strings.TrimLeft(text, " \n\r")
		if text == "" {
			break
		}

		tag := tagPattern.FindStringSubmatch(text)
		if tag == nil {
			return nil, fmt.Errorf("want an element at %.60q", text)
		}

		text = text[len(tag[0]):]

		if tag[1] == "/" {
			if at.name != tag[2] {
				return nil, fmt.Errorf("</%s> closes <%s>", tag[2], at.name)
			}
			at = at.parent
			continue
		}

		n := &node{name: tag[2], attrs: map[string]string{}, parent: at}
		for _, a := range attrPattern.FindAllStringSubmatch(tag[3], -1) {
			if _, twice := n.attrs[a[1]]; twice || len(a[2]) > maxValue ||
				strings.ContainsAny(a[2], "&<") {
				return nil, fmt.Errorf("<%s>: attribute %s=%q", n.name, a[1], a[2])
			}
			n.attrs[a[1]] = a[2]
		}

		if nodes++; nodes > maxNodes || len(n.attrs) > maxAttrs || len(at.children) == maxChildren {
			return nil, fmt.Errorf("too many nodes or attributes at <%s>", n.name)
		}

		at.children = append(at.children, n)
		if tag[4] == "" {
			at = n
		}
	}

	if at != top || len(top.children) != 1 {
		return nil, fmt.Errorf("<%s> is not closed, or there are %d top elements", at.name,
			len(top.children))
	}

	return top.children[0], top.children[0].check("")
}

// check compares an element with what NCCL needs of it when it builds its graph
// (topo.cc, ncclTopoAddCpu, ncclTopoAddPci): what it reads without a
// default and cannot fill in later.
func (n *node) check(parent string) error {
	known := map[string][]string{
		"system": {"version"},
		"cpu":    {"numaid", "affinity", "arch"},
		"pci": {"busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device",
			"link_speed", "link_width"},
	}

	for name := range n.attrs {
		if !slices.Contains(known[n.name], name) {
			return fmt.Errorf("NCCL reads no %s of <%s>", name, n.name)
		}
	}

	var err error
	switch under := parent + ">" + n.name; under {
	case ">system":
		err = n.want("version", func(v string) bool { return v == wantedVersion(n) })
	case "system>cpu":
		err = n.checkCPU()
	case "cpu>pci", "pci>pci":
		err = n.checkPCI()
	default:
		err = fmt.Errorf("NCCL reads no %s", under)
	}

	for _, b := range n.children {
		if err == nil {
			err = b.check(n.name)
		}
	}

	return err
}

// wantedVersion returns the version of the library that reads the file: RCCL takes 2 alone, NCCL 1
// alone (src/graph/xml.h of both, NCCL_TOPO_XML_VERSION).
func wantedVersion(system *node) string {
	amd, others := 0, 0
	var count func(n *node)
	count = func(n *node) {
		for _, child := range n.children {
			count(child)
		}
		switch isGPU := strings.HasPrefix(n.attrs["class"],
			"0x03") || n.attrs["class"] == "0x120000"; {
		case isGPU && n.attrs["vendor"] == "0x1002":
			amd++
		case isGPU:
			others++
		}
	}

	count(system)
	if amd > 0 && others == 0 {
		return "2"
	}

	return "1"
}

func (n *node) want(name string, good func(string) bool) error {
	if v, there := n.attrs[name]; !there || !good(v) {
		return fmt.Errorf("<%s %v>: %s is %q", n.name, n.attrs, name, v)
	}
	return nil
}

func (n *node) checkCPU() error {
	if err := n.want("numaid", func(v string) bool {
		_, err := strconv.Atoi(v)
		return err == nil
	}); err != nil {
		return err
	}

	if _, there := n.attrs["affinity"]; there {
		if err := n.want("affinity", maskPattern.MatchString); err != nil {
			return err
		}
	}

	return n.want("arch", func(v string) bool { return v == "x86_64" || v == "arm64" })
}

// checkPCI: NCCL finds a GPU or NIC by the very text of its address, and takes
// the class and the speed by how they begin (topo.cc, kvDictPciClass,
// kvDictPciGen).
func (n *node) checkPCI() error {
	if err := n.want("busid", addressPattern.MatchString); err != nil {
		return err
	}

	classes := []string{"0x02", "0x03", "0x120000"} // the last one RCCL
	if len(n.children) > 0 {
		classes = []string{"0x060400"}
	}

	if err := n.want("class", func(v string) bool {
		return slices.ContainsFunc(classes, func(c string) bool { return strings.HasPrefix(v, c) })
	}); err != nil {
		return err
	}

	_, speed := n.attrs["link_speed"]
	_, width := n.attrs["link_width"]
	if !speed && !width {
		return nil // NCCL asks NVML or sysfs
	}

	if err := n.want("link_speed", func(v string) bool {
		return slices.Contains([]string{
			"2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe",
			"64.0 GT/s PCIe",
		}, v)
	}); err != nil {
		return err
	}

	return n.want("link_width", func(v string) bool {
		n, err := strconv.Atoi(v)
		return err == nil && n >= 1 && n <= 32
	})
}

// find returns the element of an address, and how many there are.
func (n *node) find(busID string) (found *node, count int) {
	if n.attrs["busid"] == busID {
		found, count = n, 1
	}

	for _, b := range n.children {
		if f, c := b.find(busID); c > 0 {
			found, count = f, count+c
		}
	}

	return found, count
}

// above returns the elements above n, the nearest first; the last but one is its CPU.
func (n *node) above() []*node {
	var all []*node
	for p := n.parent; p != nil && p.name != ""; p = p.parent {
		all = append(all, p)
	}
	return all
}

// distance returns the type of the path between two devices (paths.cc): PIX within a switch, PXB
// where the path goes from switch to switch, PHB through a CPU, SYS from CPU to CPU.
func distance(a, b *node) string {
	if a.parent == b.parent && a.parent.name == "pci" {
		return "PIX"
	}

	for _, p := range a.above() {
		if slices.Contains(b.above(), p) {
			return map[string]string{"pci": "PXB", "cpu": "PHB", "system": "SYS"}[p.name]
		}
	}

	return "none"
}
