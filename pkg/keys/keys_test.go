package keys_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/keys"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// resolve returns the policy of KEY=VALUE words, with layout keep: the keys do not depend on it.
func resolve(t *testing.T, words string) policy.Policy {
	t.Helper()
	flags := map[policy.Key]string{policy.KeyLayout: string(policy.LayoutKeep)}
	for word := range strings.FieldsSeq(words) {
		key, value, _ := strings.Cut(word, "=")
		flags[policy.Key(key)] = value
	}

	wanted, _, err := policy.Resolve(policy.Source{Flags: flags})
	expect.NoError(t, err)
	return wanted
}

// write returns the plan of a domain with these elements after the keys of a policy have written.
func write(
	t *testing.T, arch, machine, elements, words string, vmi *kubevirt.VMI,
) *placement.Plan {
	t.Helper()
	d, err := domain.Parse([]byte("<domain type='kvm'><os><type arch='" + arch + "' machine='" +
		machine + "'>hvm</type></os>" + elements + "</domain>"))
	expect.NoError(t, err)
	plan, err := placement.New(placement.Input{
		Domain: d, Host: &topology.Host{}, Policy: resolve(t, words), VMI: vmi,
	})

	expect.NoError(t, err)
	return keys.Write(keys.Planned{Plan: plan, VMI: vmi})
}

// TestNeeds: the hook reads of the host what a key needs, and nothing for keys that are off.
func TestNeeds(t *testing.T) {
	for words, want := range map[string]host.Needs{
		"":                      0,
		"viommu=intel":          0, // it depends on the domain alone
		"mmio-window=auto":      host.Related,
		"port-speed=host":       host.Related | host.LinkSpeeds,
		"gpudirect-clique=host": host.Related | host.Details,
		"nccl-topology=fwcfg":   host.Related | host.Details,
	} {
		if got := keys.Needs(resolve(t, words)); got != want {
			t.Errorf("%q: needs %b, want %b", words, got, want)
		}
	}
}

// TestVIOMMU: a guest has one IOMMU, of a model that its machine has, or a warning says why not.
func TestVIOMMU(t *testing.T) {
	const disk = "<devices/>"
	for name, test := range map[string]struct {
		arch, machine, elements, model string
		line, warning                  string
	}{
		"x86": {
			"x86_64", "q35", disk, "intel",
			"VT-d with interrupt remapping, caching mode and 48 address bits", "",
		},
		// without extended interrupt mode libvirt refuses more than 255 vCPUs
		"x86 with 256 vCPUs": {
			"x86_64", "q35", "<vcpu>256</vcpu>" + disk, "intel",
			"VT-d with interrupt remapping, caching mode and 48 address bits, and extended " +
				"interrupt mode for 256 vCPUs", "",
		},
		"ARM": {"aarch64", "virt", disk, "smmuv3", "SMMUv3 for all devices", ""},
		"ARM's model on x86": {
			"x86_64", "q35", disk, "smmuv3", "",
			`no vIOMMU of model smmuv3: machine "q35" of architecture "x86_64" cannot have it`,
		},
		"an older machine": {
			"x86_64", "pc", disk, "intel", "",
			`no vIOMMU of model intel: machine "pc" of architecture "x86_64" cannot have it`,
		},
		"KVM's I/O APIC": {
			"x86_64", "q35", "<features><ioapic driver='kvm'/></features>" + disk, "intel", "",
			`no vIOMMU of model intel: it needs QEMU's I/O APIC, and the domain wants that of "kvm"`,
		},
		"the user's own": {
			"x86_64", "q35", "<devices><iommu model='intel'/></devices>", "intel",
			"the domain has its own, which stays as it is", "",
		},
		"the user's own of another model": {
			"x86_64", "q35", "<devices><iommu model='virtio'/></devices>", "intel", "",
			`no vIOMMU of model intel: the domain has one of model "virtio"`,
		},
	} {
		plan := write(t, test.arch, test.machine, test.elements, "viommu="+test.model,
			&kubevirt.VMI{})
		line, warning := "", ""
		for _, extra := range plan.Extras {
			line += extra.Text
		}

		for _, w := range plan.Warnings {
			warning += w.Text
		}

		if line != test.line || warning != test.warning {
			t.Errorf("%s: line %q, warning %q; want %q, %q", name, line, warning, test.line,
				test.warning)
		}
	}
}

// TestOff: a domain of an earlier call loses what a key wrote once the key is off, and keeps it
// while nobody says what the key is.
func TestOff(t *testing.T) {
	const own = "<devices><iommu model='intel'><alias name='" + string(domain.IOMMUMark) +
		"'/></iommu></devices>"
	plan := write(t, "x86_64", "q35", own, "viommu=none", &kubevirt.VMI{})
	if marked, isWritten := plan.Changes.Marked[domain.IOMMUMark]; !isWritten ||
		len(marked.Fragments) > 0 {
		t.Errorf("the key is off, and its IOMMU is not removed: %v", plan.Changes.Marked)
	}

	// without a VMI nobody knows its annotations
	if kept := write(t, "x86_64", "q35", own, "", nil); len(kept.Changes.Marked) > 0 {
		t.Errorf("the key is unknown, and its IOMMU is removed: %v", kept.Changes.Marked)
	}
}
