package report

import (
	"fmt"
	"strconv"
	"strings"
)

// String is the file as NCCL reads it: its reader knows neither tabs nor an XML
// declaration nor references (xml.cc, xmlGetNode). All values are numbers or
// fixed words, which need none.
func (n NCCL) String() string {
	var text strings.Builder
	text.WriteString("<system version=\"1\">\n")
	for _, c := range n.cpus {
		tag := fmt.Sprintf(`<cpu numaid="%d"`, c.node) + attribute("affinity", c.affinity) + attribute("arch", c.arch)
		writeNCCL(&text, "  ", tag, "cpu", c.below)
	}
	text.WriteString("</system>\n")
	return text.String()
}

// writeNCCL writes an element, whose open tag lacks its end, and all below it.
func writeNCCL(text *strings.Builder, indent, tag, name string, below []*ncclPCI) {
	if len(below) == 0 {
		text.WriteString(indent + tag + "/>\n")
		return
	}
	text.WriteString(indent + tag + ">\n")
	for _, p := range below {
		writeNCCL(text, indent+"  ", p.tag(), "pci", p.below)
	}
	text.WriteString(indent + "</" + name + ">\n")
}

// tag is the open tag without its end. Numbers have the kernel's form.
func (p *ncclPCI) tag() string {
	tag := fmt.Sprintf(`<pci busid="%s" class="0x%06x"`, p.busID, p.class) +
		attribute("vendor", hexID(p.vendor)) + attribute("device", hexID(p.device)) +
		attribute("subsystem_vendor", hexID(p.subsystemVendor)) + attribute("subsystem_device", hexID(p.subsystemDevice))
	if p.link != nil {
		tag += attribute("link_speed", fmt.Sprintf("%.1f GT/s PCIe", p.link.Speed)) + attribute("link_width", strconv.Itoa(p.link.Width))
	}
	return tag
}

func attribute(name, value string) string {
	if value == "" {
		return ""
	}
	return " " + name + `="` + value + `"`
}

func hexID(id uint16) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("0x%04x", id)
}
