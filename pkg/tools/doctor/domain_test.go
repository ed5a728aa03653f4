package doctor_test

import (
	"errors"
	"strings"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/doctor"
)

// aHost has the devices of domainOf, on two nodes.
const aHost = `
cpus 0 0-3
cpus 1 4-7
pci0000:00/0000:00:01.0/0000:01:00.0 node=0 driver=vfio-pci group=1
pci0000:00/0000:00:01.0/0000:01:00.1 node=0 driver=vfio-pci group=1
pci0000:80/0000:80:01.0/0000:02:00.0 node=1 driver=vfio-pci group=2
`

// twoRoots has the GPU and the NIC under two PCIe roots of one node.
const twoRoots = `
cpus 0 0-3
cpus 1 4-7
pci0000:00/0000:00:01.0/0000:01:00.0 node=0 driver=vfio-pci group=1
pci0000:20/0000:20:01.0/0000:02:00.0 node=0 driver=vfio-pci group=2
`

// allThree has the settings of a VMI with guest NUMA cells.
const allThree = `"cpu":{"dedicatedCpuPlacement":true,"numa":{"guestMappingPassthrough":{}}},` +
	`"memory":{"hugepages":{"pageSize":"1Gi"}}`

// intel is an IOMMU that shows the guest's mappings to VFIO.
const intel = `<iommu model='intel'><driver caching_mode='on'/></iommu>`

// domainTests tests the checks of domain.go.
func domainTests() map[string]map[string]test {
	i440fx := strings.Replace(domainOf(gpu), "machine='q35'", "machine='pc-i440fx-9.2'", 1)
	noGuestNUMA := " (" + reasons.NoGuestNUMA.Remedy() + ")"
	const hiddenIOMMU = `<qemu:commandline ` +
		`xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:arg value='-device'/>` +
		`<qemu:arg value='intel-iommu,caching-mode=on'/></qemu:commandline>`
	inClique := strings.Replace(domainOf(gpu), "</domain>", `<qemu:override xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:device alias='ua-gpu-one'><qemu:frontend>
<qemu:property name='x-nv-gpudirect-clique' type='unsigned' value='0'/></qemu:frontend></qemu:device></qemu:override></domain>`, 1)

	return map[string]map[string]test{
		"vmi-of-domain": {
			"the same": {given{
				host:   aHost,
				domain: strings.Replace(domainOf(gpu), "<name>vm<", "<name>ns_vm<", 1),
				vmi: `{"kind":"VirtualMachineInstance","metadata":{"namespace":"ns",` +
					`"name":"vm"}}`,
			}, []string{"PASS ns_vm"}},
			"another namespace": {given{
				host:   aHost,
				domain: strings.Replace(domainOf(gpu), "<name>vm<", "<name>ns_vm<", 1),
				vmi: `{"kind":"VirtualMachineInstance","metadata":{"namespace":"other",` +
					`"name":"vm"}}`,
			}, []string{
				`WARN the VMI is other/vm, and the domain is of ns/vm (pass the VMI of the ` +
					`domain: its resource names, annotations and NUMA settings count)`,
			}},
			"another run": {given{
				host: aHost,
				domain: strings.Replace(domainOf(gpu), "<name>vm<",
					"<metadata><kubevirt xmlns='http://kubevirt.io'><uid>1</uid></kubevirt>"+
						"</metadata><name>ns_vm<", 1),
				vmi: `{"kind":"VirtualMachineInstance","metadata":{"namespace":"ns","name":"vm",` +
					`"uid":"2"}}`,
			}, []string{
				`WARN the VMI and the domain are of two runs of ns/vm: their uids differ (pass ` +
					`the VMI of the domain: its resource names, annotations and NUMA ` +
					`settings count)`,
			}},
			// virt-launcher's own JSON may lack the namespace.
			"no namespace": {given{
				host:   aHost,
				domain: strings.Replace(domainOf(gpu), "<name>vm<", "<name>ns_vm<", 1),
				vmi:    vmi("", ""),
			}, []string{"PASS ns_vm"}},
			"a nameless VMI": {given{
				host: aHost, domain: domainOf(gpu), vmi: `{"kind":"VirtualMachineInstance"}`,
			}, nil},
			"a domain alone": {given{host: aHost, domain: domainOf(gpu)}, nil},
		},
		"machine-type": {
			"i440fx without devices": {given{
				host:   aHost,
				domain: strings.Replace(domainOf(), "machine='q35'", "machine='pc-i440fx-9.2'", 1),
			}, []string{
				`NOTE machine "pc-i440fx-9.2" has no expander buses; without devices it needs none`,
			}},
			"q35": {given{host: aHost, domain: domainOf(gpu)}, []string{"PASS q35"}},
			"i440fx": {given{
				host: aHost, domain: i440fx,
			}, []string{
				`FAIL machine "pc-i440fx-9.2" has no expander buses (` + reasons.Machine.Remedy() +
					")",
			}},
		},
		"placement": {
			"placed": {given{
				host: aHost, domain: domainOf(gpu, nic),
			}, []string{"PASS layout numa: 2 placed, 0 kept"}},
			"kept": {given{
				host:   aHost,
				domain: domainOf(gpu),
				vmi:    vmi(allThree, `"kubevirt.io/placePCIDevicesOnRootComplex":"true"`),
			}, []string{"PASS layout numa: 0 placed, 1 kept"}},
			"unplaced for one reason": {given{
				host: aHost, domain: domainWith("", uefi, gpu, audio, nic),
			}, []string{
				"FAIL 0000:01:00.0, 0000:01:00.1, 0000:02:00.0 are not placed: no-guest-numa" +
					noGuestNUMA,
			}},
			"without a place on a host of one node": {given{
				host:   "cpus 0 0-3\npci0000:00/0000:00:01.0/0000:01:00.0 node=0 driver=vfio-pci group=1",
				domain: domainWith("", uefi, gpu),
				layout: policy.LayoutAuto,
			}, []string{
				"NOTE 0000:01:00.0 is not placed: no-guest-numa; a place would tell the guest " +
					"nothing, for the host has one NUMA node",
			}},
			"unplaced": {given{
				host: strings.Replace(aHost, "node=1", "node=-1", 1), domain: domainOf(gpu, nic),
			}, []string{
				"FAIL 0000:02:00.0 is not placed: no-host-node (" + reasons.NoHostNode.Remedy() +
					")",
			}},
		},
		// RCCL demands another version of the file than NCCL.
		"nccl-topology": {
			"for NCCL": {given{host: aHost, domain: domainOf(gpu),
				vmi: vmi(allThree, `"hostdev.vm.kubevirt.io/nccl-topology":"fwcfg"`),
			}, []string{
				"PASS a file for NCCL of 228 bytes in the fw_cfg entry opt/org.kubevirt.hostdev/nccl-topology; the guest's own tree and links show NCCL the same, so the file adds nothing",
			}},
			"for RCCL": {given{
				host:   strings.ReplaceAll(aHost, "node=0", "node=0 class=0x120000 vendor=0x1002"),
				domain: domainOf(gpu),
				vmi:    vmi(allThree, `"hostdev.vm.kubevirt.io/nccl-topology":"fwcfg"`),
			}, []string{
				"PASS a file for RCCL of 228 bytes in the fw_cfg entry opt/org.kubevirt.hostdev/nccl-topology; the guest's own tree and links show NCCL the same, so the file adds nothing",
			}},
			"no address": {given{host: aHost, domain: i440fx,
				vmi: vmi(allThree, `"hostdev.vm.kubevirt.io/nccl-topology":"fwcfg"`),
			}, []string{"NOTE no file: no GPU or NIC has a guest address that is known"}},
			"not asked for": {given{host: aHost, domain: domainOf(gpu)}, nil},
		},
		// On aHost the GPU and its audio are one device, and the NIC is far away.
		"layout-fit": {
			"all as on the host": {given{
				host: aHost, domain: domainOf(gpu, audio, nic),
			}, []string{"PASS layout numa: 3 of 3 pairs as on the host"}},
			"a better layout": {given{host: twoRoots, domain: domainOf(gpu, nic),
				inputs: func(in *doctor.Inputs) {
					in.Alternatives = func() []plan.Alternative {
						return []plan.Alternative{
							{Layout: policy.LayoutNUMA},
							{Layout: policy.LayoutRoot, Alike: 1},
							{Layout: policy.LayoutMirror, Alike: 1},
						}
					}
				}}, []string{
				"WARN layout numa: 0 of 1 pair as on the host (with layout root 1, mirror 1)",
			}},
			"chosen by auto": {given{host: twoRoots, domain: domainOf(gpu, nic),
				inputs: func(in *doctor.Inputs) {
					in.Plan.Why = "it is so"
				}}, []string{
				"NOTE layout numa: 0 of 1 pair as on the host, since it is so",
			}},
			"no better layout": {given{
				host: twoRoots, domain: domainOf(gpu, nic),
			}, []string{"NOTE layout numa: 0 of 1 pair as on the host; no layout has more"}},
		},
		"strict": {
			"starts": {given{host: aHost, domain: domainOf(gpu), inputs: func(in *doctor.Inputs) {
				in.Plan.Policy.Strict = true
			}}, []string{"PASS the VM starts"}},
			"refused": {given{host: aHost, domain: domainOf(gpu), inputs: func(in *doctor.Inputs) {
				in.Plan.Policy.Strict, in.Err = true, errors.New("strict: a\nb")
			}}, []string{"FAIL strict: a b (remedy what the message names, or unset strict)"}},
			"not asked for": {given{host: aHost, domain: domainOf(gpu)}, nil},
		},
		"warnings": {
			"none": {given{
				host: aHost, domain: domainOf(gpu),
			}, []string{"PASS none besides what other checks say"}},
			"a typo in an annotation": {given{
				host:   aHost,
				domain: domainOf(gpu),
				vmi:    vmi(allThree, `"hostdev.vm.kubevirt.io/layuot":"mirror"`),
			}, []string{
				"WARN unknown-policy-key: unknown annotation hostdev.vm.kubevirt.io/layuot: the " +
					"key must be one of layout, strict, add, companions, hotplug-ports, " +
					"dry-run, nccl-topology, port-speed, mmio-window, viommu, gpudirect-clique; " +
					"did you mean layout? (" + reasons.CodeUnknownPolicyKey.Remedy() + ")",
			}},
			"of the policy alone": {given{host: aHost, vmi: vmi(allThree, ""),
				inputs: func(in *doctor.Inputs) {
					in.PolicyWarnings = []reasons.Finding{
						reasons.NewFinding(reasons.CodeBadPolicyValue, nil, "bad"),
					}
				}}, []string{"WARN bad-policy-value: bad (" + reasons.CodeBadPolicyValue.Remedy() +
				")"}},
		},
		"requested-devices": {
			"there": {given{
				host:   aHost,
				domain: domainOf(gpu),
				vmi: vmi(`"devices":{"gpus":[{"name":"one","deviceName":"nvidia.com/A10"}]}`,
					""),
			}, []string{
				"PASS 1 device of the VMI, all in the domain",
			}},
			"missing": {given{
				host:   aHost,
				domain: domainOf(gpu),
				vmi: vmi(`"devices":{"gpus":[{"name":"one","deviceName":"nvidia.com/A10"},`+
					`{"name":"two","deviceName":"nvidia.com/A10"}]}`, ""),
			}, []string{
				"WARN ua-gpu-two of the VMI has no hostdev, and no variable has a device left " +
					"for its resource nvidia.com/A10 (" + reasons.CodeNotAllocated.Remedy() + ")",
			}},
			"interface there": {given{
				host:   aHost,
				domain: strings.Replace(domainOf(gpu), "ua-gpu-one", "ua-sriov-data1", 1),
				vmi: vmi(`"devices":{"interfaces":[{"name":"default"},{"name":"data1","sriov":{}}]}`,
					""),
			}, []string{
				"PASS 1 device of the VMI, all in the domain",
			}},
			"interfaces missing": {given{
				host:   aHost,
				domain: domainOf(gpu),
				vmi: vmi(`"devices":{"interfaces":[{"name":"data1","sriov":{}},`+
					`{"name":"data2","sriov":{}}]}`, ""),
			}, []string{
				"WARN interface data1 of the VMI, a virtual function, has no hostdev in the domain (" +
					"see that the pod's annotation kubevirt.io/network-info names the network, and " +
					"restart the VM: KubeVirt reads it before the start)",
				"WARN interface data2 of the VMI, a virtual function, has no hostdev in the domain (" +
					"see that the pod's annotation kubevirt.io/network-info names the network, and " +
					"restart the VM: KubeVirt reads it before the start)",
			}},
		},
		"root-complex-annotation": {
			"not set": {given{vmi: vmi("", "")}, []string{"PASS not set"}},
			"set": {given{vmi: vmi("", `"kubevirt.io/placePCIDevicesOnRootComplex":"true"`)},
				[]string{
					"WARN the VMI has the annotation kubevirt.io/placePCIDevicesOnRootComplex " +
						"(remove the annotation: with it the hook moves no device)",
				}},
		},
		"viommu": {
			"none": {given{
				host: aHost, domain: domainOf(gpu),
			}, []string{"PASS the domain has none"}},
			"intel": {given{
				host: aHost, domain: domainOf(gpu, "<iommu model='intel'/>"),
			}, []string{"PASS model intel"}},
			"virtio": {given{
				host: aHost, domain: domainOf(gpu, "<iommu model='virtio'/>"),
			}, []string{
				"WARN the domain has a vIOMMU of model \"virtio\" (" + findings.Remedy("viommu") +
					")",
			}},
		},
		"locked-memory": {
			"a limit below the memory": {given{
				host: aHost,
				domain: domainWith(twoCells+memnodes+
					"<memtune><hard_limit unit='MiB'>2047</hard_limit></memtune>", uefi, gpu),
			}, []string{
				"FAIL QEMU locks 2 GiB, and memtune/hard_limit allows 1.9 GiB (remove the " +
					"hard_limit: libvirt then allows what the devices need)",
			}},
			"a limit below the memory of two devices": {given{
				host: aHost,
				domain: domainWith(twoCells+memnodes+
					"<memtune><hard_limit unit='GiB'>3</hard_limit></memtune>", uefi, gpu, nic,
					intel),
			}, []string{
				"FAIL QEMU locks 4 GiB, and memtune/hard_limit allows 3 GiB (remove the " +
					"hard_limit: libvirt then allows what the devices need)",
			}},
			"a limit above": {given{
				host: aHost,
				domain: domainWith(twoCells+memnodes+
					"<memtune><hard_limit unit='GiB'>3</hard_limit></memtune>", uefi, gpu, nic),
			}, []string{"PASS once 2 GiB"}},
			"no vIOMMU": {given{
				host: aHost, domain: domainOf(gpu, nic),
			}, []string{"PASS once 2 GiB"}},
			"one device": {given{
				host: aHost, domain: domainOf(gpu, intel),
			}, []string{"PASS once 2 GiB"}},
			"two devices": {given{host: aHost, domain: domainOf(gpu, nic, intel)}, []string{
				"NOTE with a vIOMMU QEMU locks 4 GiB: 2 GiB once for each of 2 devices " +
					"(KubeVirt allows it from 1.9.0 on; before, the VM may not start (cannot " +
					"limit locked memory))",
			}},
			"that the VMI names": {given{
				host:   aHost,
				domain: domainOf(gpu, nic, intel),
				vmi: vmi(`"devices":{"gpus":[{"name":"one"}],"hostDevices":[{"name":"two"}]}`,
					""),
			}, []string{
				"NOTE with a vIOMMU QEMU locks 4 GiB: 2 GiB once for each of 2 devices " +
					"(KubeVirt allows it from 1.9.0 on; before, the VM may not start (cannot " +
					"limit locked memory))",
			}},
			"more than the VMI names": {given{
				host:   aHost,
				domain: domainOf(gpu, nic, intel),
				vmi:    vmi(`"devices":{"gpus":[{"name":"one"}]}`, ""),
			}, []string{
				"FAIL with a vIOMMU QEMU locks 4 GiB for 2 devices; the VMI names 1, and " +
					"KubeVirt allows that many times 2 GiB (set viommu=none, or pass only " +
					"devices that the VMI names)",
			}},
			"qemu:commandline": {given{
				host: aHost,
				domain: strings.Replace(domainOf(gpu, nic), "</domain>", hiddenIOMMU+"</domain>",
					1),
			}, []string{
				"FAIL the vIOMMU in qemu:commandline makes QEMU lock 4 GiB for 2 devices, and " +
					"libvirt, which does not know it, allows 2 GiB once (remove the vIOMMU from " +
					"qemu:commandline and set viommu=intel: libvirt then counts every device)",
			}},
			"qemu:commandline, and a limit above": {given{
				host: aHost,
				domain: strings.Replace(domainWith(twoCells+memnodes+
					"<memtune><hard_limit unit='GiB'>4</hard_limit></memtune>", uefi, gpu, nic),
					"</domain>", hiddenIOMMU+"</domain>", 1),
			}, []string{
				"NOTE with a vIOMMU QEMU locks 4 GiB: 2 GiB once for each of 2 devices " +
					"(KubeVirt allows it from 1.9.0 on; before, the VM may not start (cannot " +
					"limit locked memory))",
			}},
		},
		"gpudirect-clique": {
			"none":      {given{host: aHost, domain: domainOf(gpu)}, nil},
			"in effect": {given{host: aHost, domain: inClique}, []string{"PASS 1 GPU in a clique"}},
			"hidden hypervisor": {given{host: aHost,
				domain: strings.Replace(inClique, "<devices>",
					"<features><kvm><hidden state='on'/></kvm></features><devices>", 1),
				vmi: vmi(allThree, `"hostdev.vm.kubevirt.io/gpudirect-clique":"host"`)},
				[]string{
					"WARN the domain hides the hypervisor (features/kvm/hidden), and NVIDIA's " +
						"driver then does not look for GPUDirect cliques (" +
						reasons.CodeHypervisorHidden.Remedy() + ")",
				}},
		},
		"launch-security": {
			"none": {given{
				host: aHost, domain: domainOf(gpu),
			}, []string{"PASS the domain has none"}},
			"SEV": {given{
				host:   aHost,
				domain: domainWith(twoCells+memnodes+"<launchSecurity type='sev'/>", uefi, gpu),
			}, []string{
				"WARN the domain has launchSecurity (" + findings.Remedy("launch-security") + ")",
			}},
			// Without cells nothing is placed, so there are no expander buses.
			"SEV, and no device is placed": {given{
				host: aHost, domain: domainWith("<launchSecurity type='sev'/>", uefi, gpu),
			}, []string{"PASS no device is in the tree of a layout"}},
		},
	}
}
