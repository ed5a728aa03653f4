//go:build linux

package sidecar

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/hooks"
)

// TestBuiltMemory: what a request makes the program build is as bounded as what it
// makes it read. Each of these requests is small, and the sidecar answers it and the
// next call within its memory.
func TestBuiltMemory(t *testing.T) {
	needRoot(t)
	four, host := onDevices(4)
	most, hostOfMost := onRoots(1024)
	tooMany, _ := onRoots(1500)
	few, many := root(t, host), root(t, hostOfMost)
	for _, tt := range []struct {
		name, root  string
		domain, vmi []byte
		refused     string // why the domain is returned unchanged; "" where it is not
	}{
		{"20 vCPUs pinned to every CPU", few, pinned(20, "0-65535"), nil, ""},
		{"as many vCPUs pinned to every CPU as are accepted", few, pinned(8000, "0-65535"), nil, ""},
		{"as many numbers as are accepted", few, pinned(1, strings.Repeat("0,2,4,6,", 250_000)+"8"), nil, ""},
		{"a cell of every vCPU", few, bytes.Replace(pinned(20, "0-65535"), []byte(`cpus="0-7"`), []byte(`cpus="0-65535"`), 1), nil, ""},
		{"memory on every node", few, bytes.Replace(four, []byte(`nodeset="0"`), []byte(`nodeset="0-65535"`), 1), nil, ""},
		{"as many hostdevs as are accepted", many, most, nil, ""},
		{"as many hostdevs as are accepted, none in sysfs", few, most, nil, ""},
		{"1500 hostdevs", many, tooMany, nil, "1500 hostdevs"},
		{"110000 interfaces", few, four, listed("interfaces", 110_000), tooManyFields},
		{"110000 gpus", few, four, listed("gpus", 110_000), tooManyFields},
		{"110000 hostDevices", few, four, listed("hostDevices", 110_000), tooManyFields},
		{"110000 conditions", few, four, listed("conditions", 110_000), tooManyFields},
		{"110000 annotations", few, four, annotated("", 110_000), tooManyFields},
		{"as many interfaces as are accepted", few, four, listed("interfaces", 19_999), ""},
		{"as many gpus as are accepted", few, four, listed("gpus", 19_999), ""},
		{"as many annotations of this hook as are accepted", few, four, annotated("hostdev.vm.kubevirt.io/", 19_999), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, tt.root, []group{memoryGroup(t)})
			client, _ := s.dial(t)
			for range 3 {
				got, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, tt.domain, tt.vmi)
				if changed := !bytes.Equal(got, tt.domain); err != nil || changed != (tt.refused == "") {
					t.Fatalf("changed %t, %v\n%.2000s", changed, err, s.log)
				}
			}
			if got, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, four, nil); err != nil || bytes.Equal(got, four) {
				t.Errorf("the call after: changed %t, %v", !bytes.Equal(got, four), err)
			}
			peak := s.peakMiB(t)
			s.end(t) // the log is complete then
			if !strings.Contains(s.log.String(), tt.refused) {
				t.Errorf("the log does not say %q\n%.2000s", tt.refused, s.log)
			}
			t.Logf("peak %.1f MiB, log %d bytes", peak, s.log.Len())
		})
	}
}

const tooManyFields = "fields and list entries"

// pinned is a domain with that many vCPUs, each pinned to a list of CPUs.
func pinned(vcpus int, cpus string) []byte {
	var pins strings.Builder
	for i := range vcpus {
		fmt.Fprintf(&pins, `<vcpupin vcpu="%d" cpuset="%s"/>`, i, cpus)
	}
	return around(devicesOf(4), []byte("<cputune>"+pins.String()+"</cputune>"))
}

// onRoots is a domain with that many passthrough devices, and their host, where
// each of them is under a root port of its own.
func onRoots(count int) (domain []byte, host string) {
	var hostdevs bytes.Buffer
	var lines strings.Builder
	lines.WriteString("cpus 0 0-7\ncpus 1 8-15\n")
	for i := range count {
		bus, slot := 1+i/32, i%32
		fmt.Fprintf(&hostdevs, `<hostdev type="pci"><source><address bus="%d" slot="%d"/></source></hostdev>`, bus, slot)
		fmt.Fprintf(&lines, "pci0000:00/0000:00:%02x.%d/0000:%02x:%02x.0 node=0 group=%d driver=vfio-pci\n", bus/8, bus%8, bus, slot, i)
	}
	return around(hostdevs.Bytes(), nil), lines.String()
}

// listed is a VMI with that many entries in a list of its devices.
func listed(name string, count int) []byte {
	var entries strings.Builder
	for i := range count {
		fmt.Fprintf(&entries, `,{"name":"%x"}`, i)
	}
	return []byte(`{"spec":{"domain":{"devices":{"` + name + `":[` + entries.String()[1:] + `]}}}}`)
}

// annotated is a VMI with that many annotations.
func annotated(prefix string, count int) []byte {
	var entries strings.Builder
	for i := range count {
		fmt.Fprintf(&entries, `,"%s%x":""`, prefix, i)
	}
	return []byte(`{"kind":"VirtualMachineInstance","metadata":{"annotations":{` + entries.String()[1:] + `}}}`)
}
