package plan_test

import (
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/machines"
	"hook-sidecar/test/matrix"
)

// TestPortSpeed: a plan warns once where NCCL would take the speed of emulated root
// ports for that of a faster link between devices that it pairs.
func TestPortSpeed(t *testing.T) {
	const (
		gpu     = "pci0000:16/0000:16:01.0/0000:17:00.0 node=0 class=0x030200 "
		amd     = "pci0000:16/0000:16:01.0/0000:17:00.0 node=0 class=0x120000 "
		nic     = "pci0000:16/0000:16:02.0/0000:18:00.0 node=0 class=0x020700 "
		other   = "pci0000:16/0000:16:02.0/0000:18:00.0 node=0 class=0x010802 "
		vf      = "pci0000:16/0000:16:02.0/0000:18:00.1 node=0 class=0x020700 physfn=0000:18:00.0"
		slow    = "maxlink=16.0x16\n"
		fast    = "maxlink=32.0x16\n"
		switch1 = "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0 node=0 " +
			"class=0x030200 " + fast
		switch2 = "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0 node=0 " +
			"class=0x020700 " + fast
	)
	for _, tt := range []struct {
		name, host, devices string
		flags               map[policy.Key]string
		want                string // part of the only such warning, "" for none
	}{
		{"GPU and NIC", gpu + fast + nic + fast, "17:00.0 18:00.0", nil,
			"the links of 2 GPUs and NICs, the fastest of which has 32 GT/s on the host"},
		{"accelerator and NIC", amd + fast + nic + "maxlink=64.0x16\n", "17:00.0 18:00.0", nil,
			"the fastest of which has 64 GT/s"},
		{"a virtual function has the link of its physical one", gpu + fast + nic + fast + vf,
			"17:00.0 18:00.1", nil, "2 GPUs and NICs"},
		{"no faster than the port", gpu + slow + nic + slow, "17:00.0 18:00.0", nil, ""},
		{"one of the two is no faster", gpu + fast + nic + slow, "17:00.0 18:00.0", nil, ""},
		{"the host's port is no faster", "pci0000:16/0000:16:01.0 " +
			slow + gpu + fast + nic + fast, "17:00.0 18:00.0", nil, ""},
		{"not known", gpu + "\n" + nic + "\n", "17:00.0 18:00.0", nil, ""},
		{"one GPU has nothing to pair with", gpu + fast + nic + fast, "17:00.0", nil, ""},
		{"NICs are not paired", nic + fast + vf, "18:00.0 18:00.1", nil, ""},
		{"an NVMe is not for NCCL", gpu + fast + other + fast, "17:00.0 18:00.0", nil, ""},
		{"NCCL has the host's speeds", gpu + fast + nic + fast, "17:00.0 18:00.0",
			map[policy.Key]string{
				policy.KeyNCCLTopology: "fwcfg",
			}, ""},
		{"under a switch of the host", switch1 + switch2, "19:00.0 1a:00.0", nil,
			"2 GPUs and NICs"},
		{"under a switch of the guest", switch1 + switch2, "19:00.0 1a:00.0", map[policy.Key]string{
			policy.KeyLayout: "mirror",
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := expect.Host(t, "cpus 0 0-3\n"+tt.host)
			var devices []string
			for _, d := range strings.Fields(tt.devices) {
				devices = append(devices, "0000:"+d)
			}

			m := withLayout(host, policy.LayoutRoot)
			for key, value := range tt.flags {
				m.Flags[key] = value
			}

			result := m.Read(plan.Request{
				Domain: matrix.Domain(matrix.GuestNUMA{{0}}, devices),
			}).Plan()

			if result.Err != nil {
				t.Fatal(result.Err)
			}

			found := slices.DeleteFunc(findings.Of(result.Plan), func(f reasons.Finding) bool {
				return f.Code != "port-link-speed"
			})

			switch {
			case tt.want == "" && len(found) > 0:
				t.Errorf("warnings %v, want none", found)
			case tt.want != "" &&
				(len(found) != 1 || found[0].Device != nil ||
					!strings.Contains(found[0].Text, tt.want)):
				t.Errorf("warnings %v, want one with %q", found, tt.want)
			}
		})
	}
}

// TestPortLinks sets port-speed=host with layout mirror in every case: the ports of a switch and
// the port above it have QEMU's drivers with a link together or not at all, both ends of a link
// between two ports advertise the same, and no port above a device advertises more than the
// device's own link on the host.
func TestPortLinks(t *testing.T) {
	t.Parallel()
	switches := 0
	for _, c := range cases.Load(t, root) {
		m := withLayout(c.Planner.Sysfs, policy.LayoutMirror)
		m.Flags[policy.KeyPortSpeed], m.Flags[policy.KeyStrict] = "host", "false"
		result := m.Read(plan.Request{Domain: c.Request.Domain}).Plan()
		if result.Plan == nil {
			continue
		}

		written, err := domain.Parse(result.Domain)
		expect.NoError(t, err)
		at := portOverrides(t, c.Name, written)

		for _, top := range result.Plan.GuestTree.Roots {
			for n := range top.Walk() {
				if n.Kind != topology.UpstreamPort {
					continue
				}

				own, above := at[n.ID], at[n.Parent.ID]
				if own.Speed != above.Speed || own.Width != above.Width {
					t.Errorf("%s: %+v above %+v", c.Name, above, own)
				}

				for _, port := range n.Children {
					if (at[port.ID].Driver == "") != (own.Driver == "") {
						t.Errorf("%s: %+v under %+v", c.Name, at[port.ID], own)
					}
				}

				if own.Driver != "" {
					switches++
				}
			}
		}

		for _, d := range result.Plan.Devices {
			n, host := result.Plan.GuestTree.Node(d.ID), result.Plan.Host.BestLink(d.Function)
			if n == nil || n.Parent == nil || host == nil || at[n.Parent.ID].Speed == "" {
				continue
			}

			if link := libvirt.NodeLink(written, n.Parent); link.Speed > host.Speed ||
				link.Width > host.Width {
				t.Errorf("%s: %s above %s, which has %s on the host", c.Name, link, d.ID, host)
			}
		}
	}

	if switches < 20 {
		t.Errorf("only %d switches have links: the test shows little", switches)
	}
}

// portOverrides returns the hook's overrides of a domain by port. It checks that each port exists.
func portOverrides(
	t *testing.T, name string, d *domain.Domain,
) map[topology.ID]domain.PortOverride {
	t.Helper()
	overrides, at := map[string]domain.PortOverride{}, map[topology.ID]domain.PortOverride{}
	for _, o := range d.PortOverrides() {
		if o.Own {
			overrides[o.Alias] = o
		}
	}

	for _, c := range d.Controllers {
		if o, found := overrides[c.QEMUAlias()]; found {
			at[topology.Index(c.Index)] = o
		}
	}

	if len(at) != len(overrides) {
		t.Errorf("%s: %d overrides, of which %d name a controller", name, len(overrides), len(at))
	}

	return at
}

// TestMachineOfRunningVM: libvirt's XML of a running VM names a version of the machine, and the domain
// of its next start the VMI's plain q35 again, which says nothing about QEMU. What is planned of the
// XML is what the hook plans at that start.
func TestMachineOfRunningVM(t *testing.T) {
	const samples = "../../testdata/samples/02-8gpu-8nic-gate-off"
	m := plan.Planner{
		Sysfs: machines.Sysfs(t, machines.HGX),
		Source: policy.Source{Flags: map[policy.Key]string{
			policy.KeyPortSpeed: "host", policy.KeyLayout: "root",
		}},
	}

	running := expect.File(t, samples+".libvirt9-inactive.xml")
	for vmi, machine := range map[string]string{
		"": "pc-q35-7.2", samples + ".vmi.json": "q35",
	} {
		request := plan.Request{Domain: running, Running: true}
		if vmi != "" {
			request.VMI = expect.File(t, vmi)
		}

		vm := m.Read(request)
		expect.Same(t, machine, vm.Plan().Plan.Domain().Machine, "planned for (-want +got)")
		expect.Same(t, "pc-q35-7.2", vm.Current().Plan.Domain().Machine, "as it is (-want +got)")
	}
}
