package sidecar

import (
	"bytes"
	"fmt"
	"strings"
)

// onDevices returns a domain with passthrough devices on two cells, as virt-launcher would write
// it, and their host in the format of package hostfs.
func onDevices(count int) (domain []byte, host string) {
	var lines strings.Builder
	lines.WriteString("cpus 0 0-7\ncpus 1 8-15\n")
	for i := range count {
		fmt.Fprintf(&lines,
			"pci0000:%02x/0000:%02x:%02x.0/0000:%02x:00.0 node=%d group=%d driver=vfio-pci\n",
			i%2, i%2, i/2%32, i+2, i%2, i)
	}

	return around(devicesOf(count), nil), lines.String()
}

func devicesOf(count int) []byte {
	var hostdevs bytes.Buffer
	for i := range count {
		fmt.Fprintf(&hostdevs,
			`<hostdev type="pci" managed="no"><source>`+
				`<address domain="0x0000" bus="0x%02x" slot="0x00" function="0x0"></address>`+
				`</source><alias name="ua-gpu-%d"></alias></hostdev>`+"\n", i+2, i)
	}

	return hostdevs.Bytes()
}

// around returns a domain with two cells, these devices and some text at its end.
func around(devices, end []byte) []byte {
	return fmt.Appendf(nil, `<domain type="kvm">
<name>limits</name>
<os><type arch="x86_64" machine="q35">hvm</type></os>
<devices>
%s</devices>
<cpu><numa><cell id="0" cpus="0-7" memory="1" unit="GiB"></cell><cell id="1" cpus="8-15" memory="1" unit="GiB"></cell></numa></cpu>
<numatune><memnode cellid="0" mode="strict" nodeset="0"></memnode><memnode cellid="1" mode="strict" nodeset="1"></memnode></numatune>
%s</domain>`, devices, end)
}

// filled returns a domain with devices, padded with a pattern to a size.
func filled(size int, opening, pattern, closing string) []byte {
	rest := size - len(around(devicesOf(4), nil)) - len(opening) - len(closing)
	return around(devicesOf(4), []byte(opening+strings.Repeat(pattern, rest/len(pattern))+closing))
}

// fill returns a pattern repeated, padded with a comment to a size.
func fill(opening, pattern, closing string, count, size int) []byte {
	body := opening + strings.Repeat(pattern, count)
	return []byte(body + "<!--" + strings.Repeat(" ", size-len(body)-len(closing)-len("<!---->")) +
		"-->" + closing)
}

// attributes returns an element with that many attributes.
func attributes(count int) []byte {
	var element bytes.Buffer
	element.WriteString("<many")
	for i := range count {
		fmt.Fprintf(&element, ` a%x=""`, i)
	}

	element.WriteString("/>")
	return around(nil, element.Bytes())
}

// vmi returns a VMI as JSON, padded with an annotation to a size.
func vmi(size int) []byte {
	const head, tail = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance",` +
		`"metadata":{"name":"limits","namespace":"default","annotations":{"filler":"`, `"}},"spec":{"domain":{"devices":{}}}}`
	return []byte(head + strings.Repeat("x", max(0, size-len(head)-len(tail))) + tail)
}
