package plan_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/readback"
)

// boots returns the samples that KubeVirt made, each with a matching host.
func boots() map[string]string {
	return map[string]string{
		"01-single-gpu":          "x86-2n8g-hgx-h100",
		"02-8gpu-8nic-gate-off":  "x86-2n8g-hgx-h100",
		"03-vgpu-mdev-display":   "x86-2n2g-t4-vgpu",
		"04-hostdevices-pci-usb": "x86-2n8g-hgx-h100",
	}
}

func sampleFile(t *testing.T, name string) []byte {
	t.Helper()
	data := expect.File(t, filepath.Join(root, "testdata", "samples", name))

	// The host's UUIDs are invented, so the sample's vGPU is not on it: without this
	// there is nothing to place.
	return bytes.ReplaceAll(data, []byte("aa618089-8b16-4d01-a136-25a0f3c73123"),
		[]byte("4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"))
}

// TestBoot plays KubeVirt's calls of one boot, with a libvirt readback and KubeVirt's lossy round
// trip between them, of every fifth case and sample that KubeVirt could have written: those of one
// version of KubeVirt. With WHOLE=1 it plays those of all, and of both versions. Each later call
// keeps the placement of the first, each domain that is defined has everything else where it is
// without the hook, and one more call does not change the last answer.
func TestBoot(t *testing.T) {
	t.Parallel()
	lib := oracle.New(t).Readback
	identity := func(domain []byte) ([]byte, error) { return domain, nil }
	versions := []readback.Version{readback.V190, readback.Main}
	for n, d := range definable(t) {
		if !d.first || !expect.IsSampled(n, 5) {
			continue
		}

		planner, _, _ := d.host.WholeHost()
		for _, version := range expect.Sampled(n, versions) {
			if !isKubeVirts(lib, version, d.domain) {
				continue
			}

			_, without := version.Sequence(t, d.domain, d.vmi, identity, lib)
			for _, layout := range layouts() {
				t.Run(fmt.Sprintf("%s/%v/%s", d.name, version, layout), func(t *testing.T) {
					m := planner
					m.Source = laidOut(m.Source, layout)
					boot(t, m, version, lib, d, without)
				})
			}
		}
	}
}

// boot plays one boot; without has the answers of a hook that changes nothing.
func boot(
	t *testing.T, m plan.Planner, version readback.Version, lib readback.Lib, d definition,
	without [][]byte,
) {
	t.Helper()
	var plans []*placement.Plan
	hook := func(domain []byte) ([]byte, error) {
		result := m.Read(plan.Request{Domain: domain, VMI: d.vmi}).Plan()
		plans = append(plans, result.Plan)
		return result.Domain, result.Err
	}

	_, answers := version.Sequence(t, d.domain, d.vmi, hook, lib)
	for call, plan := range plans[1:] {
		expect.Same(t, places(plans[0]), places(plan), "call %d moves devices (-first +now)",
			call+2)
	}

	for call, answer := range answers {
		expect.Same(t, readBack(t, lib, without[call]), readBack(t, lib, answer),
			"call %d: disks, NICs or controllers move (-without the hook +with it)", call+1)
	}

	last := answers[len(answers)-1]
	if again := m.Read(plan.Request{
		Domain: last, VMI: d.vmi,
	}).Plan(); !bytes.Equal(again.Domain, last) {
		t.Errorf("one more call changes the last answer:\n%s", changes(last, again.Domain))
	}
}

// places returns where each device is that the plan places, or finds in its place:
// the address that the guest will show, its path, and its port's hotplug.
func places(plan *placement.Plan) map[string]string {
	all := map[string]string{}
	for _, d := range plan.Devices {
		if d.Outcome != placement.Placed && d.Reason != reasons.AlreadyAligned {
			continue
		}

		hotplug := ""
		for _, c := range plan.Controllers {
			if d.Address != nil && c.Index == d.Address.Bus {
				hotplug = fmt.Sprintf("hotplug off %v", c.HotplugOff)
			}
		}

		all[d.ID.String()] = fmt.Sprint(d.Predicted, " on ", d.GuestPath, " ", hotplug)
	}

	return all
}

// TestBootOnMigrationTarget checks that strict is off where the call's context says that
// the answer is discarded: an error would not be. The single GPU has no guest NUMA, for
// which strict refuses any other boot.
func TestBootOnMigrationTarget(t *testing.T) {
	m := plan.Planner{
		Sysfs:  hosts(t)["x86-2n8g-hgx-h100.txtar"],
		Source: policy.Source{Flags: map[policy.Key]string{policy.KeyStrict: "true"}},
	}

	req := plan.Request{
		Domain: sampleFile(t, "01-single-gpu.xml"), VMI: sampleFile(t, "01-single-gpu.vmi.json"),
	}

	if result := m.Read(req).Plan(); !result.Strict || result.Err == nil {
		t.Fatal("strict does not refuse a boot: the test below shows nothing")
	}

	req.Discarded = true
	if result := m.Read(req).Plan(); result.Strict || result.Err != nil {
		t.Errorf("strict %v, error %v", result.Strict, result.Err)
	}
}
