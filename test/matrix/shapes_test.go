package matrix_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/shapes"
	"hook-sidecar/test/tree"
)

// newShape returns a random domain that has every kind of device, and the hook for it. Its
// hostdevs are in pairs under a switch each, every other pair on the second NUMA node.
func newShape(t *testing.T, seed uint64) mixed {
	t.Helper()
	shape := shapes.Random(seed)
	m := mixed{Rand: rand.New(rand.NewPCG(seed, 38)), domain: shape.XML}
	m.Devices = shape.Hostdevs

	host := []string{"cpus 0 0-1", "cpus 1 2-3"}
	for i, id := range shape.Hostdevs {
		pair := i / 2
		host = append(host, fmt.Sprintf(
			"pci0000:%02x/0000:%02[1]x:01.0/0000:%02[2]x:00.0/0000:%02x:%02x.0/%s node=%d group=%d driver=vfio-pci class=%s",
			0x10*pair, 0x10*pair+1, 0x10*pair+2, i%2, id, pair%2, i,
			[]string{"0x030200", "0x020700"}[i%2]))
	}

	sysfs := expect.Host(t, strings.Join(host, "\n"))
	m.hook = plan.Planner{Sysfs: sysfs, Source: policy.Source{Flags: m.layout()}}
	m.host = matrix.Sysfs{FS: sysfs}
	return m
}

// TestShapes: a random domain has with the hook every disk, NIC, filesystem and controller where
// libvirt puts it without, and every device where the hook predicts it. Later calls change
// nothing, but where the first could place nothing: what the user left open is then known, such as
// the addresses that versions of libvirt give differently. SHAPES is how many domains.
func TestShapes(t *testing.T) {
	libvirt := oracle.New(t)
	shapes, placed, predicted := seeds(t, "SHAPES", 25, 100), 0, 0
	for _, seed := range shapes {
		m := newShape(t, seed)
		without, err := libvirt.Readback(m.domain)
		if err != nil {
			continue // libvirt refuses it with the hook or without
		}

		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			result := m.hook.Read(plan.Request{Domain: m.domain}).Plan()
			expect.NoError(t, result.Err)
			if changes := result.Plan.Changes; len(changes.Place) > 0 {
				placed++
			}

			with, err := libvirt.Readback(result.Domain)
			if err != nil {
				t.Fatalf("libvirt accepts\n%s\nbut not the result\n%s\n%v", m.domain, result.Domain,
					err)
			}

			predicted += comparePredictions(t, result, with)
			if !libvirt.IsByIndex() && reasons.CodeLibvirt9.IsIn(result.Plan.Warnings) {
				return
			}

			expect.Same(t, seen(t, without), seen(t, with),
				"disks, NICs or controllers move (-without the hook +with it)")
			before := shortages(t, without)
			for bus, shortage := range shortages(t, with) {
				if before[bus] == "" {
					t.Error(shortage)
				}
			}

			if m.isOpen(result) {
				with, err = libvirt.Readback(
					m.hook.Read(plan.Request{Domain: with}).Plan().Domain)
				expect.NoError(t, err)
				expect.Same(t, seen(t, without), seen(t, with),
					"disks, NICs or controllers move in the second call (-without the hook +with it)")
			} else {
				m.again(t, result, with)
			}

			if t.Failed() {
				t.Logf("%v\n%s", m.hook.Flags, m.domain)
			}
		})
	}

	t.Logf("of %d domains %d have a device that is placed; %d predictions", len(shapes), placed,
		predicted)
	if placed < len(shapes)/4 || predicted < len(shapes)/2 {
		t.Error("that shows little")
	}
}

// isOpen reports whether a later call may do what the first could not: a rule kept it from building
// the layout or, without the model of a SCSI controller, QEMU's build decides what takes a port.
func (m mixed) isOpen(result plan.Result) bool {
	return bytes.Contains(m.domain, []byte("bus='scsi'")) ||
		slices.ContainsFunc(result.Plan.Warnings, func(w reasons.Finding) bool {
			return w.Code == reasons.CodeBrokenRule || w.Code == reasons.CodeCoarserLayout
		})
}

// shortages returns the root buses of a domain without enough numbers, by name. The first number may
// be another with the hook: libvirt gives the user's expander buses those below the hook's.
func shortages(t *testing.T, readback []byte) map[string]string {
	t.Helper()
	read, err := tree.Read(readback)
	expect.NoError(t, err)
	all := map[string]string{}
	for _, shortage := range read.BusShortages() {
		bus, _, _ := strings.Cut(shortage, " starts")
		all[bus] = shortage
	}

	return all
}

// comparePredictions compares the addresses that a plan predicts with those of the guest, and
// returns how many there are.
func comparePredictions(t *testing.T, result plan.Result, with []byte) (count int) {
	t.Helper()
	read, err := tree.Read(with)
	expect.NoError(t, err)
	buses, hostdevs := read.Buses(), read.Hostdevs
	for _, d := range result.Plan.Devices {
		if d.Predicted == nil {
			continue
		}

		count++
		at := hostdevs[d.ID.String()].At
		bus := buses[at.Bus]
		path := bus.Path(at.Slot, at.Function)
		if got := path[strings.LastIndex(path, "/")+1:]; got != d.Predicted.String() {
			t.Errorf("%s is predicted at %s, and is at %s", d.ID, d.Predicted, got)
		}
	}

	return count
}
