package plan_test

import (
	"bytes"
	"testing"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
)

// TestGPUDirect: the numbers are those that NCCL 2.29.7's own code decides for the HGX and its
// guests (`make nccl`): root and numa are the same to it, and without the hook GPU 0 alone gets
// the host's NIC.
func TestGPUDirect(t *testing.T) {
	planner := plan.Planner{Sysfs: hosts(t)["x86-2n8g-hgx-h100.txtar"]}
	vm := planner.Read(plan.Request{
		Domain: sampleFile(t, "02-8gpu-8nic-gate-off.xml"),
		VMI:    sampleFile(t, "02-8gpu-8nic-gate-off.vmi.json"),
	})

	outcomes := map[policy.Layout]placement.GPUDirect{
		"numa":   {GPUs: 8, Host: 8, Guest: 0, Right: 4},
		"root":   {GPUs: 8, Host: 8, Guest: 0, Right: 4},
		"mirror": {GPUs: 8, Host: 8, Guest: 8, Right: 8},
		"auto":   {GPUs: 8, Host: 8, Guest: 8, Right: 8},
	}

	for layout, want := range outcomes {
		if got := vm.WithLayout(layout).Plan.GPUDirect(); got != want {
			t.Errorf("layout %s: %+v, want %+v", layout, got, want)
		}
	}

	flat := placement.GPUDirect{GPUs: 8, Host: 8, Guest: 0, Right: 1}
	if got := vm.Current().Plan.GPUDirect(); got != flat {
		t.Errorf("without the hook: %+v, want %+v", got, flat)
	}
}

// TestGPUDirectOfHidden: a NIC with <address type='unassigned'/> is not in the guest, so no GPU has
// one to take.
func TestGPUDirectOfHidden(t *testing.T) {
	const nics = "ua-sriov-rdma"
	domain := sampleFile(t, "02-8gpu-8nic-gate-off.xml")
	alias := []byte(`<alias name="` + nics)
	if !bytes.Contains(domain, alias) {
		t.Fatalf("the sample has no alias %s", nics)
	}

	planner := plan.Planner{Sysfs: hosts(t)["x86-2n8g-hgx-h100.txtar"]}
	hidden := bytes.ReplaceAll(domain, alias,
		append([]byte(`<address type="unassigned"></address>`), alias...))
	got := planner.Read(plan.Request{Domain: hidden}).WithLayout(
		policy.LayoutMirror).Plan.GPUDirect()
	if got != (placement.GPUDirect{}) {
		t.Errorf("%+v, want no GPU with a NIC to take", got)
	}
}

// TestGPUDirectOfPartition: a GPU without a NIC of its own uses that of another GPU over NVLink,
// with GPUDirect RDMA (PXN), where Fabric Manager joins the two. Without a partition of both it
// takes the way over the CPU, on the host as in the guest.
func TestGPUDirectOfPartition(t *testing.T) {
	const (
		hostdev = `<hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='`
		end     = `'/></source></hostdev>`
	)
	domain := `<domain type='kvm'><name>two</name><memory unit='MiB'>4096</memory>
		<vcpu>2</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os><devices>` +
		hostdev + `0x1b' slot='0x00' function='0x0` + end +
		hostdev + `0x18' slot='0x00' function='0x1` + end +
		hostdev + `0x43' slot='0x00' function='0x0` + end + `</devices></domain>`
	near, far := topology.Address{Bus: 0x1b}, topology.Address{Bus: 0x43}
	for name, test := range map[string]struct {
		partitions []nvlink.Partition
		want       int
	}{
		"not known":           {nil, 2},
		"a partition of both": {[]nvlink.Partition{{ID: 3, Modules: []nvlink.Module{1, 2}}}, 2},
		"one each": {[]nvlink.Partition{
			{ID: 7, Modules: []nvlink.Module{1}}, {ID: 8, Modules: []nvlink.Module{2}},
		}, 1},
		"with others": {[]nvlink.Partition{
			{ID: 3, Modules: []nvlink.Module{1, 3}}, {ID: 4, Modules: []nvlink.Module{2, 4}},
		}, 1},
	} {
		planner := plan.Planner{
			Sysfs: hosts(t)["x86-2n8g-hgx-h100.txtar"],
			Partitions: nvlink.List{
				Partitions: test.partitions,
				Addresses:  map[nvlink.Module]topology.Address{1: near, 2: far},
			},
		}

		vm := planner.Read(plan.Request{Domain: []byte(domain)})
		got := vm.WithLayout(policy.LayoutMirror).Plan.GPUDirect()
		if got.GPUs != 2 || got.Host != test.want || got.Guest != test.want {
			t.Errorf("%s: %+v, want %d of 2 GPUs", name, got, test.want)
		}
	}
}
