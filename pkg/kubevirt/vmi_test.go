package kubevirt_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/test/expect"
)

const samplesDir = "../../testdata/samples"

func TestParseVMISamples(t *testing.T) {
	h100 := "nvidia.com/GH100_H100_SXM5_80GB"
	eight := &kubevirt.VMI{
		NamespacedName: types.NamespacedName{Namespace: "default", Name: "dgx-8gpu"},
		UID:            "0f5d5f0a-6a2e-4c0e-9f5b-2f3f6b8c1d01",
		Devices:        kubevirt.Devices{Interfaces: []kubevirt.Interface{{Name: "default"}}},
		DedicatedCPU:   true, Hugepages: true, GuestMappingPassthrough: true,
	}

	for i := range 8 {
		eight.GPUs = append(eight.GPUs, kubevirt.Request{
			Name: fmt.Sprintf("gpu%d", i+1), Resource: h100,
		})
		eight.Interfaces = append(eight.Interfaces, kubevirt.Interface{
			Name: fmt.Sprintf("rdma%d", i+1), SRIOV: &struct{}{},
		})
	}

	desktop := &kubevirt.VMI{
		NamespacedName: types.NamespacedName{Namespace: "default", Name: "vgpu-desktop"},
		UID:            eight.UID,
		Devices: kubevirt.Devices{
			GPUs:       []kubevirt.Request{{Name: "gpu1", Resource: "nvidia.com/NVIDIA_A40-8Q"}},
			Interfaces: []kubevirt.Interface{{Name: "default"}},
		},
	}

	desktop.GPUs[0].Options.Display = &kubevirt.DisplayOptions{Enabled: new(true)}
	desktop.GPUs[0].Options.Display.RamFB.Enabled = new(true)

	for file, want := range map[string]*kubevirt.VMI{
		"02-8gpu-8nic-gate-off": eight, "03-vgpu-mdev-display": desktop,
	} {
		data := expect.File(t, filepath.Join(samplesDir, file+".vmi.json"))
		got, err := kubevirt.ParseVMI(data)
		expect.NoError(t, err)
		if got.Annotations["kubevirt.io/pci-topology-version"] != "v3" {
			t.Errorf("%s: annotations %v", file, got.Annotations)
		}

		want.Machine, got.Annotations = "q35", nil
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(kubevirt.VMI{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// The display options are those of KubeVirt's hostdev_test.go. Unset and false are
// different.
func TestParseVMIRequests(t *testing.T) {
	for _, tc := range []struct {
		gpu            string
		set            bool
		enabled, ramfb *bool
	}{
		{`{"virtualGPUOptions":{}}`, false, nil, nil},
		{`{"virtualGPUOptions":{"display":null}}`, false, nil, nil},
		{`{"virtualGPUOptions":{"display":{}}}`, true, nil, nil},
		{`{"virtualGPUOptions":{"display":{"enabled":false}}}`, true, new(false), nil},
		{`{"virtualGPUOptions":{"display":{"ramFB":{}}}}`, true, nil, nil},
		{`{"virtualGPUOptions":{"display":{"enabled":true,"ramFB":{"enabled":false}}}}`, true,
			new(true), new(false)},
	} {
		display := parseVMI(t, `{"spec":{"domain":{"devices":{"gpus":[`+tc.gpu+
			`]}}}}`).GPUs[0].Options.Display
		if (display != nil) != tc.set {
			t.Errorf("%s: %+v", tc.gpu, display)
		} else if tc.set {
			expect.Same(t, []*bool{
				tc.enabled, tc.ramfb,
			}, []*bool{display.Enabled, display.RamFB.Enabled}, "%s (-want +got)", tc.gpu)
		}
	}

	// A resource takes precedence over a claim (KubeVirt pkg/dra/utils.go).
	for request, want := range map[string]bool{
		`{"name":"g","deviceName":"r"}`:                  false,
		`{"name":"g","claimName":"c","requestName":"q"}`: true,
		`{"name":"g","deviceName":"r","claimName":"c"}`:  false,
	} {
		if got := parseVMI(t, `{"spec":{"domain":{"devices":{"hostDevices":[`+request+
			`]}}}}`).HostDevices[0]; got.IsClaim() != want || got.Name != "g" {
			t.Errorf("%s: %+v, a claim: %t", request, got, got.IsClaim())
		}
	}
}

func TestParseVMIInterfaces(t *testing.T) {
	vmi := parseVMI(t, `{"spec":{"domain":{"devices":{"interfaces":[
		{"name":"a","sriov":{},"pciAddress":"0000:20:00.0"},{"name":"b","bridge":{},"ports":[{"port":80}]},{"name":"c","sriov":null}]}}}}`)
	want := []kubevirt.Interface{
		{Name: "a", PCIAddress: "0000:20:00.0", SRIOV: &struct{}{}}, {Name: "b"}, {Name: "c"},
	}

	expect.Same(t, want, vmi.Interfaces, "interfaces (-want +got)")
}

func TestParseVMIMigration(t *testing.T) {
	for _, tc := range []struct {
		name, status string
		want         bool
	}{
		{"no status", `{}`, false},
		{"null", `{"migrationState":null}`, false},
		// The target's hook sees this first: handleTargetPodHandoff sets only these.
		{"handed off",
			`{"migrationState":{"migrationUid":"u","targetNode":"n2","sourceNode":"n1",` +
				`"targetPod":"p"}}`, true},
		{"started",
			`{"migrationState":{"targetNode":"n2","startTimestamp":"2026-01-01T00:00:00Z"}}`, true},
		{"being aborted", `{"migrationState":{"targetNode":"n2","abortRequested":true}}`, true},
		{"completed",
			`{"migrationState":{"targetNode":"n2","completed":true,` +
				`"endTimestamp":"2026-01-01T00:01:00Z"}}`, false},
		{"failed", `{"migrationState":{"targetNode":"n2","failed":true}}`, false},
		{"ended",
			`{"migrationState":{"targetNode":"n2","startTimestamp":"2026-01-01T00:00:00Z",` +
				`"endTimestamp":"2026-01-01T00:01:00Z"}}`, false},
	} {
		if got := parseVMI(t, `{"kind":"VirtualMachineInstance","status":`+tc.status+
			`}`).MigrationInProgress; got != tc.want {
			t.Errorf("%s: in progress %v", tc.name, got)
		}
	}
}

func TestParseVMIGuestNUMA(t *testing.T) {
	vmi := parseVMI(t, `{"spec":{"domain":{"cpu":{"numa":{}},"memory":{"guest":"1Gi"}}}}`)
	if vmi.DedicatedCPU || vmi.Hugepages || vmi.GuestMappingPassthrough {
		t.Errorf("nothing requested: %+v", vmi)
	}

	vmi = parseVMI(t,
		`{"spec":{"domain":{"cpu":{"dedicatedCpuPlacement":true,`+
			`"numa":{"guestMappingPassthrough":{}}},"memory":{"hugepages":{"pageSize":"1Gi"}}}}}`)
	if !vmi.DedicatedCPU || !vmi.Hugepages || !vmi.GuestMappingPassthrough {
		t.Errorf("all requested: %+v", vmi)
	}
}

// A later KubeVirt may have new fields, and other types in fields that are not
// read.
func TestParseVMITolerates(t *testing.T) {
	vmi := parseVMI(t, ` {"kind":"VirtualMachineInstance","new":[1,{"a":null}],"metadata":{"name":"v","managedFields":7},
		"spec":{"domain":{"clock":"new","devices":{"disks":{},"gpus":[{"name":"g","new":{}}]}},"volumes":"new"},"status":{"phase":3}}`)
	if vmi.Name != "v" || len(vmi.GPUs) != 1 || vmi.GPUs[0].Name != "g" {
		t.Errorf("%+v", vmi)
	}
}

func TestParseVMIRefuses(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", "no data"},
		{"whitespace", " \n", "no data"},
		{"null", "null", "not a JSON object"},
		{"list", "[]", "not a JSON object"},
		{"YAML", "kind: VirtualMachineInstance\n", "not a JSON object"},
		{"syntax", "{\n  \"metadata\": {\n    \"name\": SECRET\n", "line 3, column 13"},
		{"cut off", "{\n\"metadata\": {", "line 2"},
		{"two documents", "{}\n{}", "line 2, column 1"},
		{"type", "{\"metadata\":\n {\"name\": 1}}", "line 2, column 11: field metadata.name"},
		{"type deep down", `{"spec":{"domain":{"devices":{"gpus":"SECRET"}}}}`,
			"field spec.domain.devices.gpus"},
		{"another kind", `{"kind":"Pod","spec":{"password":"SECRET"}}`,
			`kind is "Pod", want VirtualMachineInstance`},
		{"a VM without a template", `{"kind":"VirtualMachine","spec":{"running":true}}`,
			`kind is "VirtualMachine", want VirtualMachineInstance`},
		{"another template", `{"kind":"Deployment","spec":{"template":{"spec":{"domain":{}}}}}`,
			`kind is "Deployment", want VirtualMachineInstance`},
		{"empty", `{}`, "it has neither a kind nor spec.domain, want a VirtualMachineInstance"},
		{"something else", `{"metadata":{"name":"a"},"spec":{"replicas":1}}`,
			"it has neither a kind nor spec.domain, want a VirtualMachineInstance"},
	} {
		vmi, err := kubevirt.ParseVMI([]byte(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) ||
			strings.Contains(err.Error(), "SECRET") || vmi != nil {
			t.Errorf("%s: %+v, %v; want an error with %q", tc.name, vmi, err, tc.want)
		}
	}
}

// largeVMI returns the sample with 8 GPUs and user data of n bytes.
func largeVMI(tb testing.TB, n int) []byte {
	tb.Helper()
	data := expect.File(tb, filepath.Join(samplesDir, "02-8gpu-8nic-gate-off.vmi.json"))
	const userData = `"userData": "`
	before, after, found := strings.Cut(string(data), userData)
	if !found {
		tb.Fatal("the sample has no user data")
	}

	return []byte(before + userData + strings.Repeat("x", n) + after)
}

func TestParseVMILarge(t *testing.T) {
	vmi, err := kubevirt.ParseVMI(largeVMI(t, 3<<20))
	if err != nil || len(vmi.GPUs) != 8 {
		t.Errorf("%d GPUs, %v", len(vmi.GPUs), err)
	}
}

// What a VMI has many of is limited, wherever it has it; text in strings is not.
func TestParseVMILimit(t *testing.T) {
	repeated := func(entry string, count int) string {
		return strings.TrimSuffix(strings.Repeat(entry+",", count), ",")
	}
	for _, tc := range []struct {
		name, text string
		refused    bool
	}{
		{"the most interfaces", `{"spec":{"domain":{"devices":{"interfaces":[` +
			repeated("{}", 20_001) + `]}}}}`, false},
		{"one interface more", `{"spec":{"domain":{"devices":{"interfaces":[` +
			repeated("{}", 20_002) + `]}}}}`, true},
		{"annotations", `{"metadata":{"annotations":{` + repeated(`"a":""`, 20_002) + `}}}`, true},
		{"conditions", `{"status":{"conditions":[` + repeated("null", 20_002) + `]}}`, true},
		{"a script", `{"kind":"VirtualMachineInstance","spec":{"volumes":"` +
			repeated(`{\"a\":[1,2],\\`, 20_002) + `"}}`, false},
		{"after a backslash", `{"spec":{"volumes":["\\",` + repeated("{}", 20_002) + `]}}`, true},
	} {
		vmi, err := kubevirt.ParseVMI([]byte(tc.text))
		if tc.refused &&
			(err == nil || vmi != nil || !strings.Contains(err.Error(), "the limit is 20000")) ||
			!tc.refused && err != nil {
			t.Errorf("%s: %v, refused %t", tc.name, err, !tc.refused)
		}
	}
}

func parseVMI(t *testing.T, text string) *kubevirt.VMI {
	t.Helper()
	vmi, err := kubevirt.ParseVMI([]byte(text))
	expect.NoError(t, err)
	return vmi
}

func BenchmarkParseVMI(b *testing.B) {
	for _, n := range []int{0, 3 << 20} {
		data := largeVMI(b, n)
		b.Run(fmt.Sprintf("%d-bytes-of-user-data", n), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := kubevirt.ParseVMI(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestDomainName: a domain's name tells its VMI, and none that KubeVirt did not make has one.
func TestDomainName(t *testing.T) {
	vmi := types.NamespacedName{Namespace: "ml", Name: "vm-1"}
	if got, isKubeVirts := kubevirt.OfDomain(kubevirt.DomainName(vmi)); got != vmi || !isKubeVirts {
		t.Errorf("%s is the domain of %s, %v", kubevirt.DomainName(vmi), got, isKubeVirts)
	}

	if got, isKubeVirts := kubevirt.OfDomain("vm-1"); isKubeVirts {
		t.Errorf("vm-1 is the domain of %s", got)
	}
}
