package domain_test

import (
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func parse(t testing.TB, src string) *domain.Domain {
	t.Helper()
	d, err := domain.Parse([]byte(src))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}

	return d
}

func apply(t testing.TB, d *domain.Domain, c domain.Changes) string {
	t.Helper()
	changed, err := d.Apply(c)
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}

	return string(changed)
}

func ptr[T any](v T) *T { return &v }

func pci(s string) topology.DeviceID {
	a, err := topology.ParseAddress(s)
	if err != nil {
		panic(err)
	}
	return topology.PCIDevice(a)
}

func mdev(s string) topology.DeviceID {
	u, err := topology.ParseUUID(s)
	if err != nil {
		panic(err)
	}
	return topology.MediatedDevice(u)
}

// equal ignores where a Domain is in the bytes.
var equal = cmp.Options{
	cmpopts.IgnoreUnexported(domain.Domain{}, domain.Controller{}, domain.Hostdev{},
		domain.Device{}),
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b topology.DeviceID) bool { return a == b }),
}

const uuid = "4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"

// devices wraps devices.
func devices(s string) string { return `<domain><devices>` + s + `</devices></domain>` }
