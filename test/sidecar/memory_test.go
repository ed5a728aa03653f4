//go:build linux

package sidecar

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// request is one that a sidecar has to answer within its memory.
type request struct {
	name, root  string
	domain, vmi []byte
	// why the domain is returned unchanged, or the call fails; "" where it is placed
	refused string
	mostMiB float64
}

// TestMemory: whatever a request contains or makes the program build, the sidecar stays within its
// memory and answers the next call. The goal is for domains of real VMs. Every second request is
// tried, with WHOLE=1 each.
func TestMemory(t *testing.T) {
	t.Parallel()
	needRoot(t)
	four, host := onDevices(4)
	sixteen, _ := onDevices(16)
	sixtyFour, hostOfSixtyFour := onDevices(64)
	most, hostOfMost := onRoots(1024)
	tooMany, _ := onRoots(1500)
	few, some, many := root(t, host), root(t, hostOfSixtyFour), root(t, hostOfMost)
	large := vmi(3 << 20)
	requests := []request{
		{"16 devices", some, sixteen, vmi(30 << 10), "", goalMiB},
		{"64 devices", some, sixtyFour, vmi(30 << 10), "", goalMiB},
		{"VMI of 3 MiB", some, sixtyFour, large, "", limitMiB},
		{"the most elements that are accepted", few,
			around(devicesOf(4), fill("<x>", "<a/>", "</x>", 49_000, 2<<20-8<<10)), large, "",
			limitMiB},
		{"the most attributes that are accepted", few,
			around(devicesOf(4), fill("<x>", `<a b="" c="" d=""/>`, "</x>", 12_000, 2<<20-8<<10)),
			large, "", limitMiB},
		{"domain of 3.9 MiB of text", few, filled(39<<20/10, "<!--", " ", "-->"), large,
			tooManyBytes, limitMiB},
		{"domain of 3.9 MiB of elements", few, filled(39<<20/10, "<x>", "<a b=\"c\"/>", "</x>"),
			large, tooManyBytes, limitMiB},
		{"domain of 8 MiB of text", few, filled(8<<20, "<!--", " ", "-->"), large, tooLarge,
			limitMiB},
		{"domain of 8 MiB of elements", few, filled(8<<20, "<x>", "<a/>", "</x>"), large, tooLarge,
			limitMiB},
		{"a million attributes", few, attributes(1_000_000), large, tooLarge, limitMiB},
		{"20 vCPUs pinned to every CPU", few, pinned(20, "0-65535"), nil, "", limitMiB},
		{"as many vCPUs pinned to every CPU as are accepted", few, pinned(8000, "0-65535"), nil, "",
			limitMiB},
		{"as many numbers as are accepted", few, pinned(1, strings.Repeat("0,2,4,6,", 250_000)+"8"),
			nil, "", limitMiB},
		{"a cell of every vCPU", few,
			bytes.Replace(pinned(20, "0-65535"), []byte(`cpus="0-7"`), []byte(`cpus="0-65535"`), 1),
			nil, "", limitMiB},
		{"memory on every node", few,
			bytes.Replace(four, []byte(`nodeset="0"`), []byte(`nodeset="0-65535"`), 1), nil, "",
			limitMiB},
		{"as many hostdevs as are accepted", many, most, nil, "", limitMiB},
		{"as many hostdevs as are accepted, none in sysfs", few, most, nil, "", limitMiB},
		{"1500 hostdevs", many, tooMany, nil, "1500 hostdevs", limitMiB},
		{"110000 interfaces", few, four, listed("interfaces", 110_000), tooManyFields, limitMiB},
		{"110000 gpus", few, four, listed("gpus", 110_000), tooManyFields, limitMiB},
		{"110000 hostDevices", few, four, listed("hostDevices", 110_000), tooManyFields, limitMiB},
		{"110000 conditions", few, four, listed("conditions", 110_000), tooManyFields, limitMiB},
		{"110000 annotations", few, four, annotated("", 110_000), tooManyFields, limitMiB},
		{"as many interfaces as are accepted", few, four, listed("interfaces", 19_999), "",
			limitMiB},
		{"as many gpus as are accepted", few, four, listed("gpus", 19_999), "", limitMiB},
		{"as many annotations of this hook as are accepted", few, four,
			annotated("hostdev.vm.kubevirt.io/", 19_999), "", limitMiB},
	}

	for i, r := range requests {
		if !expect.IsSampled(i, 2) {
			continue
		}

		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.test(t, four)
		})
	}
}

// test makes two calls with the request, five with WHOLE=1, and one with another domain.
func (r request) test(t *testing.T, next []byte) {
	s := start(t, r.root, []group{memoryGroup(t)})
	client, _ := s.dial(t)
	failed := ""
	for range expect.Count(2, 5) {
		got, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, r.domain, r.vmi)
		switch {
		case r.refused == tooLarge && err != nil:
			failed = err.Error()
		case r.refused == tooLarge || err != nil || bytes.Equal(got, r.domain) != (r.refused != ""):
			t.Fatalf("changed %t, %v\n%.2000s", !bytes.Equal(got, r.domain), err, s.log)
		}
	}

	if got, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, next, nil); err != nil ||
		bytes.Equal(got, next) {
		t.Errorf("the call after: changed %t, %v", !bytes.Equal(got, next), err)
	}

	peak, file := s.peakMiB(t), s.kib(t, "RssFile")/1024
	s.end(t) // the log is complete then
	if !strings.Contains(s.log.String()+failed, r.refused) {
		t.Errorf("neither the log nor the error %q has %q\n%.2000s", failed, r.refused, s.log)
	}

	t.Logf("peak %.1f MiB, and %.1f MiB of the program's file; log %d bytes", peak, file,
		s.log.Len())
	if peak > r.mostMiB {
		t.Errorf("peak of %.1f MiB, more than %.0f", peak, r.mostMiB)
	}
}

// TestManyClients: clients that send the largest requests at once, more of them than are accepted,
// do not end the sidecar. There are 8 or 16, with WHOLE=1 first 8 and then 16.
func TestManyClients(t *testing.T) {
	t.Parallel()
	needRoot(t)
	four, host := onDevices(4)
	largest, large := around(devicesOf(4),
		fill("<x>", "<a/>", "</x>", 48_000, 2<<20-8<<10)), vmi(3<<20)
	for _, count := range expect.Sampled(0, []int{8, 16}) {
		t.Run(fmt.Sprintf("%d clients", count), func(t *testing.T) {
			s := start(t, root(t, host), []group{memoryGroup(t)})
			s.dial(t)
			var clients sync.WaitGroup
			var answered atomic.Int32
			for range count {
				clients.Go(func() {
					client, err := hookstest.Connect(t.Context(), s.socket)
					if err != nil {
						return // too many
					}

					defer client.Close()
					for range 3 {
						if _, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, largest,
							large); err == nil {
							answered.Add(1)
						}
					}
				})
			}

			clients.Wait()
			client := connect(t, s.socket)
			got, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, four, nil)
			if err != nil || bytes.Equal(got, four) || answered.Load() == 0 {
				t.Errorf("%d calls answered; the one after: changed %t, %v", answered.Load(),
					!bytes.Equal(got, four), err)
			}

			if peak := s.peakMiB(t); peak > limitMiB {
				t.Errorf("peak of %.1f MiB, more than %d", peak, limitMiB)
			} else {
				t.Logf("%d calls answered, peak %.1f MiB", answered.Load(), peak)
			}
		})
	}
}

// limitMiB is a sidecar's memory, memoryBytes, in MiB.
const limitMiB = 61

// Parts of what the log, or the error of a call that gRPC refuses, has of a refused
// request.
const (
	tooLarge      = "ResourceExhausted"
	tooManyBytes  = "bytes, the limit is 2097152"
	tooManyFields = "fields and list entries"
)

// pinned returns a domain with that many vCPUs, each pinned to a list of CPUs.
func pinned(vcpus int, cpus string) []byte {
	var pins strings.Builder
	for i := range vcpus {
		fmt.Fprintf(&pins, `<vcpupin vcpu="%d" cpuset="%s"/>`, i, cpus)
	}
	return around(devicesOf(4), []byte("<cputune>"+pins.String()+"</cputune>"))
}

// onRoots returns a domain with that many passthrough devices, and their host, where each of them
// is under a root port of its own.
func onRoots(count int) (domain []byte, host string) {
	var hostdevs bytes.Buffer
	var lines strings.Builder
	lines.WriteString("cpus 0 0-7\ncpus 1 8-15\n")

	for i := range count {
		bus, slot := 1+i/32, i%32
		fmt.Fprintf(&hostdevs,
			`<hostdev type="pci"><source><address bus="%d" slot="%d"/></source></hostdev>`, bus,
			slot)
		fmt.Fprintf(&lines,
			"pci0000:00/0000:00:%02x.%d/0000:%02x:%02x.0 node=0 group=%d driver=vfio-pci\n",
			bus/8, bus%8, bus, slot, i)
	}

	return around(hostdevs.Bytes(), nil), lines.String()
}

// listed returns a VMI with that many entries in a list of its devices.
func listed(name string, count int) []byte {
	var entries strings.Builder
	for i := range count {
		fmt.Fprintf(&entries, `,{"name":"%x"}`, i)
	}
	return []byte(`{"spec":{"domain":{"devices":{"` + name + `":[` + entries.String()[1:] + `]}}}}`)
}

// annotated returns a VMI with that many annotations.
func annotated(prefix string, count int) []byte {
	var entries strings.Builder
	for i := range count {
		fmt.Fprintf(&entries, `,"%s%x":""`, prefix, i)
	}

	return []byte(`{"kind":"VirtualMachineInstance","metadata":{"annotations":{` +
		entries.String()[1:] + `}}}`)
}
