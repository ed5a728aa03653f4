package request_test

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/placement/request"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// variables reads NAME=VALUE words.
func variables(t *testing.T, words string) []env.Variable {
	t.Helper()
	read, warnings := env.ParseVariables(strings.Fields(words))
	if len(warnings) > 0 {
		t.Fatal(warnings)
	}
	return read
}

// vmi requests devices, each as NAME:RESOURCE.
func vmi(gpus, hostDevices string) *kubevirt.VMI {
	read := func(words string) (all []kubevirt.Request) {
		for word := range strings.FieldsSeq(words) {
			name, resource, _ := strings.Cut(word, ":")
			all = append(all, kubevirt.Request{Name: name, Resource: resource})
		}
		return all
	}

	var v kubevirt.VMI
	v.GPUs, v.HostDevices = read(gpus), read(hostDevices)
	return &v
}

// domainOf has hostdevs, each as ALIAS=BUS, or BUS where libvirt has dropped the alias.
func domainOf(t *testing.T, words string) *domain.Domain {
	t.Helper()
	var hostdevs strings.Builder
	for word := range strings.FieldsSeq(words) {
		alias, bus, isNamed := strings.Cut(word, "=")
		if !isNamed {
			alias, bus = "", word
		}

		fmt.Fprintf(&hostdevs,
			"<hostdev type='pci'><source><address domain='0' bus='0x%s' slot='0' "+
				"function='0'/></source>", bus)
		if isNamed {
			fmt.Fprintf(&hostdevs, "<alias name='%s'/>", alias)
		}
		hostdevs.WriteString("</hostdev>")
	}

	d, err := domain.Parse([]byte("<domain type='kvm'><os><type machine='q35'>hvm</type></os>" +
		"<devices>" + hostdevs.String() + "</devices></domain>"))
	expect.NoError(t, err)
	return d
}

// TestAdditions adds what the VMI requests and the domain lacks.
func TestAdditions(t *testing.T) {
	const gpu, two = "PCI_RESOURCE_N_A=0000:01:00.0", "PCI_RESOURCE_N_A=0000:01:00.0,0000:02:00.0"
	for name, test := range map[string]struct {
		gpus, hostDevices, variables, domain string
		policy                               policy.Policy
		want                                 string // alias and address of each, then warnings
	}{
		"as virt-launcher names it": {
			gpus: "g:n/a", variables: gpu, policy: policy.Policy{Add: policy.AddRequested},
			want: "ua-gpu-g 0000:01:00.0",
		},
		"nothing is asked for": {
			gpus: "g:n/a", variables: gpu, policy: policy.Policy{Add: policy.AddNone},
		},
		"it is there": {
			gpus: "g:n/a", variables: gpu, domain: "ua-gpu-g=01",
			policy: policy.Policy{Add: policy.AddRequested},
		},
		// libvirt keeps letters, digits, "_" and "-" alone: it dropped the alias of g.1
		"it is there without its alias": {
			gpus: "g.1:n/a", variables: gpu, domain: "01",
			policy: policy.Policy{Add: policy.AddRequested},
		},
		"the other one is there": {
			gpus: "g:n/a h:n/a", variables: two, domain: "ua-gpu-g=01",
			policy: policy.Policy{Add: policy.AddRequested}, want: "ua-gpu-h 0000:02:00.0",
		},
		// the converter writes host devices before GPUs
		"host devices first": {
			gpus: "g:n/a", hostDevices: "d:n/a", variables: two,
			policy: policy.Policy{Add: policy.AddRequested},
			want:   "ua-hostdevice-d 0000:01:00.0, ua-gpu-g 0000:02:00.0",
		},
		"none is left": {
			gpus: "g:n/a h:n/a", variables: gpu, policy: policy.Policy{Add: policy.AddRequested},
			want: "ua-gpu-g 0000:01:00.0, ua-gpu-h of the VMI has no hostdev, and no " +
				"variable has a " +
				"device left for its resource n/a",
		},
		"all of the variables": {
			variables: two, policy: policy.Policy{Add: policy.AddAll},
			want: "ua-hostdevice-N_A-0 0000:01:00.0, ua-hostdevice-N_A-1 0000:02:00.0",
		},
		"an alias that is in use": {
			variables: two, domain: "ua-hostdevice-N_A-0=09",
			policy: policy.Policy{Add: policy.AddAll},
			want:   "ua-hostdevice-N_A-1 0000:01:00.0, ua-hostdevice-N_A-2 0000:02:00.0",
		},
		// a list of the whole group, in any order: the GPU is given, its audio function is not
		"the GPU before its audio function": {
			gpus: "g:n/a", variables: "PCI_RESOURCE_N_A=0000:01:00.1,0000:01:00.0",
			policy: policy.Policy{Add: policy.AddRequested}, want: "ua-gpu-g 0000:01:00.0",
		},
	} {
		requests := request.New(vmi(test.gpus, test.hostDevices), variables(t, test.variables))
		added, warnings := requests.Additions(domainOf(t, test.domain), &topology.Host{},
			test.policy)
		var got []string
		for _, h := range added {
			got = append(got, h.Alias+" "+h.ID.String())
		}

		for _, w := range warnings {
			got = append(got, w.Text)
		}

		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%s: %q, want %q", name, text, test.want)
		}
	}
}

// TestCompanions adds the other functions of a device that VFIO holds in its group: without them
// QEMU gets a group that is not whole. One of another group, or of a driver of the host, stays.
func TestCompanions(t *testing.T) {
	group, other := 7, 8
	at := func(function uint8, group *int, driver string) topology.Function {
		return topology.Function{
			Address: topology.Address{Bus: 1, Function: function}, IOMMUGroup: group,
			Driver: driver,
		}
	}

	host := &topology.Host{Functions: []topology.Function{
		at(0, &group, "vfio-pci"), at(1, &group, "vfio-pci"), at(2, &other, "vfio-pci"),
		at(3, &group, "snd_hda_intel"),
	}}

	added, _ := request.New(nil, nil).Additions(domainOf(t, "ua-gpu-g=01"), host,
		policy.Policy{Add: policy.AddNone, Companions: policy.CompanionsAdd})
	if len(added) != 1 || added[0].Alias != "ua-gpu-g-fn1" ||
		added[0].ID.String() != "0000:01:00.1" {
		t.Errorf("added %v, want function 1 as ua-gpu-g-fn1", added)
	}
}

// TestResourceOf: the alias says a device's resource, else the variable that lists it does.
func TestResourceOf(t *testing.T) {
	requests := request.New(vmi("g:n/a", "d:m/b"),
		variables(t, "PCI_RESOURCE_N_A=0000:01:00.0 PCI_RESOURCE_M_B=0000:02:00.0"))
	d := domainOf(t, "ua-gpu-g=02 ua-dra-hostdevice-d=01 01 09")
	for i, want := range []string{"n/a", "m/b", "n/a", ""} {
		if got := requests.ResourceOf(d.Hostdevs[i]); got != want {
			t.Errorf("hostdev %d: %q, want %q", i, got, want)
		}
	}
}

// TestCollision: KubeVirt's rule gives n.a/b and n_a/b one variable, so nobody knows whose devices
// it lists.
func TestCollision(t *testing.T) {
	requests := request.New(vmi("g:n.a/b h:n_a/b", ""),
		variables(t, "PCI_RESOURCE_N_A_B=0000:01:00.0"))
	_, warnings := requests.Additions(domainOf(t, ""), &topology.Host{},
		policy.Policy{Add: policy.AddNone})
	const want = "PCI_RESOURCE_N_A_B is the variable of several resources of the VMI: n.a/b " +
		"and n_a/b"
	if len(warnings) != 1 || warnings[0].Text != want {
		t.Errorf("warnings %v, want %q", warnings, want)
	}
}
