package kubevirt

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"testing"

	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"

	"hook-sidecar/test/oracle"
	"hook-sidecar/test/readback"
)

const qemuNamespace = "http://libvirt.org/schemas/domain/qemu/1.0"

// hook answers one call of a boot with the domain to define, and changes the spec
// to what KubeVirt continues with.
type hook func(*api.DomainSpec) (string, error)

// boot plays virt-launcher's lookupOrCreateVirDomain (KubeVirt v1.9.0,
// virtwrap/manager.go) with KubeVirt's types and a real libvirt.
type boot struct {
	t       *testing.T
	vmi     *v1.VirtualMachineInstance
	hook    hook
	libvirt *oracle.Libvirt
	calls   []call
}

// call is one definition of the domain.
type call struct {
	answer   string // the domain that libvirt gets
	readback []byte
}

// run plays the boot of a domain as the hook sees it in its first call.
func (b *boot) run(first []byte) []call {
	b.t.Helper()
	first, _, err := readback.WithoutPlaceholders(first)
	if err != nil {
		b.t.Fatal(err)
	}
	spec := b.spec(first)
	// encoding/xml does not read this attribute back; the converter sets it
	// (virtwrap/api/defaults.go).
	spec.XmlNS = qemuNamespace
	vmiJSON, err := json.Marshal(b.vmi)
	if err != nil {
		b.t.Fatal(err)
	}
	placeholders, err := readback.PlaceholderCount(vmiJSON)
	if err != nil {
		b.t.Fatal(err)
	}
	ports, err := readback.ExtraPorts(first, vmiJSON, placeholders)
	if err != nil {
		b.t.Fatal(err)
	}
	if placeholders > 0 {
		// virtwrap/network/nichotplug.go, WithNetworkIfacesResources.
		read := b.spec(b.define(b.edited(spec, readback.Placeholders, placeholders)).readback)
		read.Devices.Interfaces = spec.Devices.Interfaces
		read.Devices.DeepCopyInto(&spec.Devices)
	}
	b.define(spec)
	if ports > 0 {
		b.define(b.edited(spec, readback.AppendRootPorts, ports))
	}
	return b.calls
}

func (b *boot) spec(domain []byte) *api.DomainSpec {
	b.t.Helper()
	spec := &api.DomainSpec{}
	if err := xml.Unmarshal(domain, spec); err != nil {
		b.t.Fatalf("KubeVirt reads the domain: %v", err)
	}
	return spec
}

// edited is a copy of a spec with placeholders or root ports. KubeVirt's own code
// for that, in virtwrap and virtwrap/network, cannot be imported without cgo.
func (b *boot) edited(spec *api.DomainSpec, edit func([]byte, int) ([]byte, error), count int) *api.DomainSpec {
	b.t.Helper()
	domain, err := xml.Marshal(spec)
	if err == nil {
		domain, err = edit(domain, count)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	copied := b.spec(domain)
	copied.XmlNS = spec.XmlNS
	return copied
}

func (b *boot) define(spec *api.DomainSpec) call {
	b.t.Helper()
	answer, err := b.hook(spec)
	if err != nil {
		b.t.Fatalf("call %d: %v", len(b.calls)+1, err)
	}
	back := b.libvirt.Check(b.t, []byte(answer))
	if back == nil {
		b.t.Fatalf("call %d: libvirt refused:\n%s", len(b.calls)+1, answer)
	}
	b.calls = append(b.calls, call{answer, back})
	return b.calls[len(b.calls)-1]
}

// legacy is ApplySidecarHooks of virtwrap/util/libvirt_helper.go: the answer is
// defined as it is, and KubeVirt continues with what its types keep of it.
func legacy(onDefineDomain func(*api.DomainSpec, *v1.VirtualMachineInstance) (string, error), vmi *v1.VirtualMachineInstance) hook {
	return func(spec *api.DomainSpec) (string, error) {
		answer, err := onDefineDomain(spec, vmi)
		if err != nil {
			return "", err
		}
		read := &api.DomainSpec{}
		if err := xml.Unmarshal([]byte(answer), read); err != nil {
			return "", fmt.Errorf("KubeVirt reads the answer: %w", err)
		}
		read.DeepCopyInto(spec)
		return answer, nil
	}
}

// identity is a boot without any hook.
func identity(spec *api.DomainSpec) (string, error) {
	answer, err := xml.MarshalIndent(spec, "", "\t")
	return string(answer), err
}
