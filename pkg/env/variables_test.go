package env_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

func TestVariableIsFor(t *testing.T) {
	for resource, name := range map[string]string{
		"nvidia.com/GH100_H100_SXM5_80GB":          "PCI_RESOURCE_NVIDIA_COM_GH100_H100_SXM5_80GB",
		"nvidia.com/TU106_GEFORCE_RTX_2060_REV__A": "PCI_RESOURCE_NVIDIA_COM_TU106_GEFORCE_RTX_2060_REV__A",
		"nvidia.com/GRID_T4-1Q":                    "MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-1Q",
		"gpu.intel.com/vfio":                       "PCI_RESOURCE_GPU_INTEL_COM_VFIO",
		"vendor.com/hostdev_name0":                 "PCI_RESOURCE_VENDOR_COM_HOSTDEV_NAME0",
		// Two resources can have the same variable.
		"a.b/c": "PCI_RESOURCE_A_B_C",
		"a_b/C": "PCI_RESOURCE_A_B_C",
	} {
		variables, problems := env.ParseVariables([]string{name + "="})
		if len(problems) > 0 || len(variables) != 1 || !variables[0].IsFor(resource) ||
			variables[0].IsFor(resource+"0") {
			t.Errorf("%s is not the variable of %s alone: %v %v", name, resource, variables,
				problems)
		}
	}
}

// Each case has the value as that device plugin writes it.
func TestParseVariablesOfPlugins(t *testing.T) {
	for _, tc := range []struct {
		plugin  string
		environ []string
		want    []string // "KIND SUFFIX ID ID …"
	}{
		{
			"KubeVirt virt-handler, PCI: addresses joined by commas, one of each IOMMU group",
			[]string{"PCI_RESOURCE_NVIDIA_COM_GH100_H100_SXM5_80GB=0000:1b:00.0,0000:43:00.0"},
			[]string{"pci NVIDIA_COM_GH100_H100_SXM5_80GB 0000:1b:00.0 0000:43:00.0"},
		},
		{
			"KubeVirt virt-handler, mdev",
			[]string{
				"MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-1Q=4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01",
			},
			[]string{"mdev NVIDIA_COM_GRID_T4-1Q 4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"},
		},
		{
			"KubeVirt virt-handler, USB, is not a PCI resource",
			[]string{"USB_RESOURCE_KUBEVIRT_IO_STORAGE=3:7,3:8"},
			nil,
		},
		{
			"NVIDIA kubevirt-gpu-device-plugin: the requested devices only",
			[]string{
				"PCI_RESOURCE_NVIDIA_COM_TU106_GEFORCE_RTX_2060_REV__A=0000:86:00.0,0000:af:00.0",
			},
			[]string{"pci NVIDIA_COM_TU106_GEFORCE_RTX_2060_REV__A 0000:86:00.0 0000:af:00.0"},
		},
		{
			"NVIDIA, older: every function of the IOMMU group, the audio function first",
			[]string{"PCI_RESOURCE_NVIDIA_COM_GA102_GEFORCE_RTX_3090=0000:01:00.1,0000:01:00.0"},
			[]string{"pci NVIDIA_COM_GA102_GEFORCE_RTX_3090 0000:01:00.1 0000:01:00.0"},
		},
		{
			"NVIDIA vGPU as mdev: spaces of the type become _, - stays",
			[]string{
				"MDEV_PCI_RESOURCE_NVIDIA_COM_NVIDIA_A10-24Q=b0f1c8d2-0000-4000-8000-000000000001,b0f1c8d2-0000-4000-8000-000000000002",
			},
			[]string{
				"mdev NVIDIA_COM_NVIDIA_A10-24Q b0f1c8d2-0000-4000-8000-000000000001 " +
					"b0f1c8d2-0000-4000-8000-000000000002",
			},
		},
		{
			"NVIDIA vGPU as a virtual function",
			[]string{"PCI_RESOURCE_NVIDIA_COM_NVIDIA_L40S-8Q=0000:41:00.4,0000:41:00.5"},
			[]string{"pci NVIDIA_COM_NVIDIA_L40S-8Q 0000:41:00.4 0000:41:00.5"},
		},
		{
			"NVIDIA sandbox-device-plugin, vGPU",
			[]string{
				"MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_A100-1-5C=5d3c0a52-0000-4000-8000-00000000000a",
			},
			[]string{"mdev NVIDIA_COM_GRID_A100-1-5C 5d3c0a52-0000-4000-8000-00000000000a"},
		},
		{
			"Harvester: each device followed by all devices of its IOMMU group, in any order",
			[]string{
				"PCI_RESOURCE_INTEL_COM_IXGBE=0000:08:00.2,0000:08:00.2,0000:08:00.3," +
					"0000:08:00.3,0000:08:00.2",
			},
			[]string{"pci INTEL_COM_IXGBE 0000:08:00.2 0000:08:00.3"},
		},
		{
			"Intel GPU plugin: the mdev variable is set and empty",
			[]string{
				"PCI_RESOURCE_GPU_INTEL_COM_VFIO=0000:4d:00.0,0000:b3:00.0",
				"MDEV_PCI_RESOURCE_GPU_INTEL_COM_VFIO=",
			},
			[]string{"mdev GPU_INTEL_COM_VFIO", "pci GPU_INTEL_COM_VFIO 0000:4d:00.0 0000:b3:00.0"},
		},
		{
			"AMD ROCm: all functions of the last group",
			[]string{
				"PCI_RESOURCE_AMD_COM_GPU=0000:05:00.0",
				"PCI_RESOURCE_AMD_COM_GPU_VF=0000:05:02.0,0000:05:02.1",
				"PCI_RESOURCE_AMD_COM_GPU_PF=0000:15:00.0",
			},
			[]string{
				"pci AMD_COM_GPU 0000:05:00.0", "pci AMD_COM_GPU_PF 0000:15:00.0",
				"pci AMD_COM_GPU_VF 0000:05:02.0 0000:05:02.1",
			},
		},
		{
			"XDXCT: as older NVIDIA",
			[]string{"PCI_RESOURCE_XDXCT_COM_PANGU=0000:03:00.0,0000:03:00.1"},
			[]string{"pci XDXCT_COM_PANGU 0000:03:00.0 0000:03:00.1"},
		},
		{
			"Akri",
			[]string{"PCI_RESOURCE_AKRI_SH_NVME-4F3A=0000:c1:00.0", "USB_RESOURCE_AKRI_SH_CAM=1:4"},
			[]string{"pci AKRI_SH_NVME-4F3A 0000:c1:00.0"},
		},
		{
			"sriov-network-device-plugin has variables of its own",
			[]string{
				"PCIDEVICE_NVIDIA_COM_MLNX_RDMA=0000:18:00.1",
				`PCIDEVICE_NVIDIA_COM_MLNX_RDMA_INFO={"0000:18:00.1":{}}`,
			},
			nil,
		},
	} {
		t.Run(tc.plugin, func(t *testing.T) {
			variables, problems := env.ParseVariables(tc.environ)
			expect.Same(t, tc.want, lines(variables), "variables (-want +got)")
			if len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
		})
	}
}

func TestParseVariables(t *testing.T) {
	const uuid = "4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"
	for _, tc := range []struct {
		name    string
		environ []string
		want    []string
		bad     []string // "CODE SOURCE: part of the text"
	}{
		{"none", nil, nil, nil},
		{"others", []string{"PATH=/bin", "HOME", "", "=", "=C:=C:\\"}, nil, nil},
		{"whitespace", []string{
			"PCI_RESOURCE_X= 0000:01:00.0 ,\t0000:02:00.0\n",
		}, []string{"pci X 0000:01:00.0 0000:02:00.0"}, nil},
		{"empty elements and a trailing comma", []string{
			"PCI_RESOURCE_X=,0000:01:00.0,,0000:02:00.0,",
		}, []string{"pci X 0000:01:00.0 0000:02:00.0"}, nil},
		{"no value", []string{
			"PCI_RESOURCE_X=", "PCI_RESOURCE_Y=,", "PCI_RESOURCE_Z",
		}, []string{"pci X", "pci Y", "pci Z"}, nil},
		{"order of the value stays, without duplicates", []string{
			"PCI_RESOURCE_X=0000:02:00.0,0000:01:00.0,0000:02:00.0",
		}, []string{"pci X 0000:02:00.0 0000:01:00.0"}, nil},
		{"order of the variables does not", []string{
			"PCI_RESOURCE_Y=", "PCI_RESOURCE_X=", "MDEV_PCI_RESOURCE_Z=",
		}, []string{"mdev Z", "pci X", "pci Y"}, nil},
		{"domains of 4 to 8 digits, any case", []string{
			"PCI_RESOURCE_X=10000:01:00.0,FFFFFFFF:01:00.0,ABCD:0A:1F.7",
		}, []string{"pci X 10000:01:00.0 ffffffff:01:00.0 abcd:0a:1f.7"}, nil},
		{"one device in two spellings", []string{
			"PCI_RESOURCE_X=00000000:0A:00.0,0000:0a:00.0",
		}, []string{"pci X 0000:0a:00.0"}, nil},
		{"UUID in any case", []string{
			"MDEV_PCI_RESOURCE_X=" + strings.ToUpper(uuid) + "," + uuid,
		}, []string{"mdev X " + uuid}, nil},
		{
			"one bad element does not affect the others",
			[]string{"PCI_RESOURCE_X=0000:01:00.0,bad:address,0000:02:00.0"},
			[]string{"pci X 0000:01:00.0 0000:02:00.0"},
			[]string{`bad-variable-value PCI_RESOURCE_X: "bad:address"`},
		},
		{"UUID in a PCI variable", []string{
			"PCI_RESOURCE_X=" + uuid,
		}, []string{"pci X"}, []string{"bad-variable-value PCI_RESOURCE_X: " + uuid}},
		{"address in an mdev variable", []string{
			"MDEV_PCI_RESOURCE_X=0000:01:00.0",
		}, []string{"mdev X"}, []string{`bad-variable-value MDEV_PCI_RESOURCE_X: "0000:01:00.0"`}},
		{"more bad elements are counted", []string{
			"PCI_RESOURCE_X=a,b,c",
		}, []string{
			"pci X",
		}, []string{
			`bad-variable-value PCI_RESOURCE_X: invalid PCI address "a"`,
			"bad-variable-value PCI_RESOURCE_X: 2 more",
		}},
		{"path instead of a device", []string{
			"PCI_RESOURCE_X=../../../etc/passwd",
		}, []string{"pci X"}, []string{"bad-variable-value PCI_RESOURCE_X: passwd"}},
		{"XML instead of a device", []string{
			`PCI_RESOURCE_X="/><evil`,
		}, []string{"pci X"}, []string{"bad-variable-value PCI_RESOURCE_X: evil"}},
		{"name without a resource", []string{
			"PCI_RESOURCE_=0000:01:00.0", "MDEV_PCI_RESOURCE_=",
		}, nil, []string{
			"bad-variable-value PCI_RESOURCE_: no resource",
			"bad-variable-value MDEV_PCI_RESOURCE_: no resource",
		}},
		{"prefix alone or in the middle", []string{
			"PCI_RESOURCE=0000:01:00.0", "PCI_RESOURCEX=0000:01:00.0",
			"X_PCI_RESOURCE_Y=0000:01:00.0", "pci_resource_x=0000:01:00.0",
		}, nil, nil},
		{"twice with the same value", []string{
			"PCI_RESOURCE_X=0000:01:00.0", "PCI_RESOURCE_X=0000:01:00.0",
		}, []string{"pci X 0000:01:00.0"}, nil},
		{
			"twice with different values: the first, as os.LookupEnv of virt-launcher",
			[]string{"PCI_RESOURCE_X=0000:02:00.0", "PCI_RESOURCE_X=0000:01:00.0"},
			[]string{"pci X 0000:02:00.0"},
			[]string{"variable-conflict PCI_RESOURCE_X: first is used"},
		},
		{"an = in the value", []string{
			"PCI_RESOURCE_X=0000:01:00.0=1",
		}, []string{"pci X"}, []string{"bad-variable-value PCI_RESOURCE_X: 0000:01:00.0=1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			variables, problems := env.ParseVariables(tc.environ)
			expect.Same(t, tc.want, lines(variables), "variables (-want +got)")
			expect.Problems(t, problems, tc.bad)
		})
	}
}

// The problem of a very long value is short.
func TestParseVariablesLongValue(t *testing.T) {
	for name, value := range map[string]string{
		"one element":   strings.Repeat("x", 1<<20),
		"many elements": strings.Repeat("x,", 1<<19),
	} {
		_, problems := env.ParseVariables([]string{"PCI_RESOURCE_X=" + value})
		if len(problems) != 1 || len(problems[0].Text) > 200 {
			t.Errorf("%s: %d problems, %.300v", name, len(problems), problems)
		}
	}
}

func FuzzParseVariables(f *testing.F) {
	for _, seed := range []string{
		"PCI_RESOURCE_X=0000:01:00.0,0000:02:00.0\nPATH=/bin",
		"MDEV_PCI_RESOURCE_X=4A1F0B5C-6C3E-4F5A-9D0E-3B1C7F2A9E01,",
		"PCI_RESOURCE_X=\nPCI_RESOURCE_X=a,b", "PCI_RESOURCE_=", "=\n\n",
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		environ := strings.Split(text, "\n")
		variables, problems := env.ParseVariables(environ)
		if !slices.IsSortedFunc(variables, func(a, b env.Variable) int {
			return strings.Compare(a.Name, b.Name)
		}) {
			t.Error("variables are not in order")
		}

		for _, v := range variables {
			seen := map[topology.DeviceID]bool{}
			var values []string
			for _, id := range v.IDs {
				if id.Kind() != v.Kind || seen[id] {
					t.Errorf("%s: %s has another kind or appears twice", v.Name, id)
				}
				seen[id] = true
				values = append(values, id.String())
			}

			again, more := env.ParseVariables([]string{v.Name + "=" + strings.Join(values, ",")})
			if diff := cmp.Diff(lines([]env.Variable{v}), lines(again)); diff != "" ||
				len(more) > 0 {
				t.Errorf("read again (-before +after):\n%s%v", diff, more)
			}
		}

		for _, p := range problems {
			if source, text, _ := strings.Cut(p.Text, ": "); p.Code == "" || source == "" ||
				text == "" {
				t.Errorf("a problem with an empty field: %+v", p)
			}
		}
	})
}

func lines(variables []env.Variable) []string {
	var out []string
	for _, v := range variables {
		line := string(v.Kind) + " " + v.Suffix
		for _, id := range v.IDs {
			line += " " + id.String()
		}
		out = append(out, line)
	}

	return out
}
