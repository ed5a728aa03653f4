package why

import (
	"strings"
	"testing"
)

// withVF is a VM that fails, whose virtual function is 0000:3b:02.1, number 5 of its NIC.
const withVF = "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
	"spec: {domain: {devices: {interfaces: [{name: data, sriov: {}}]}}}\n" +
	"status: {phase: Scheduled, nodeName: gpu-1}\n---\n" +
	"kind: Pod\nmetadata: {name: virt-launcher-vm-x7k2p, namespace: ml, annotations: {" +
	"kubevirt.io/network-info: '{\"interfaces\":[{\"network\":\"data\",\"deviceInfo\":{\"pci\":" +
	"{\"pci-address\":\"0000:3b:02.1\"}}}]}'}}\nspec: {nodeName: gpu-1}\n---\n" +
	"kind: SriovNetworkNodeState\nmetadata: {name: gpu-1}\nstatus: {interfaces: [{pciAddress: " +
	"'0000:3b:00.0', Vfs: [{pciAddress: '0000:3b:02.1', vfID: 5}, {pciAddress: '0000:3b:02.2', " +
	"vfID: 6}]}]}\n---\n"

// TestOtherVF: what the node's kernel says of another virtual function of the VM's NIC is not about the
// VM, also if that is in the same slot, or the NIC's driver prints its number alone.
func TestOtherVF(t *testing.T) {
	const (
		lost   = "[  100.000000] vfio-pci FUNCTION: Unable to change power state from D3cold to D0, device inaccessible\n"
		driver = "[  100.000000] mlx5_core 0000:3b:00.0: VF NUMBER: command failed with status 5\n"
	)

	for name, tt := range map[string]struct {
		log   string
		isOwn bool
	}{
		"own":          {strings.ReplaceAll(lost, "FUNCTION", "0000:3b:02.1"), true},
		"next":         {strings.ReplaceAll(lost, "FUNCTION", "0000:3b:02.2"), false},
		"own and next": {strings.ReplaceAll(lost, "FUNCTION", "0000:3b:02.1") + strings.ReplaceAll(lost, "FUNCTION", "0000:3b:02.2"), true},
		"own number":   {strings.ReplaceAll(driver, "NUMBER", "5"), true},
		"next number":  {strings.ReplaceAll(driver, "NUMBER", "6"), false},
		"no number":    {strings.ReplaceAll(driver, "NUMBER", "reset"), true},
	} {
		e := evidence(withVF)
		e.Add("dmesg.txt", []byte(tt.log))
		r := e.Diagnose()
		if got := len(r.Causes)+len(r.Errors) > 0; got != tt.isOwn {
			t.Errorf("%s: %s, errors %+v", name, causes(r.Causes), r.Errors)
		}
	}
}

// TestOtherPods: what the kubelet and containerd log of other pods is not the VM's, but for those of
// device plugins; and a later line about another pod does not hide one about the VM's.
func TestOtherPods(t *testing.T) {
	const (
		objects = "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
			"status: {phase: Scheduling}\n---\n"
		kubelet = "Nov 22 10:06:0N gpu-1 kubelet[77]: E1122 10:06:00.1 77 pod_workers.go:1] \"Error " +
			"syncing pod, skipping\" err=\"ERROR\" pod=\"POD\"\n"
		own   = "ml/virt-launcher-vm-x7k2p"
		fault = "failed to \\\"KillContainer\\\" for \\\"x\\\""
	)

	line := func(number, pod, err string) string {
		return strings.NewReplacer("0N", "0"+number, "POD", pod, "ERROR", err).Replace(kubelet)
	}
	for name, tt := range map[string]struct{ log, want string }{
		"own":       {line("1", own, "no such word"), own},
		"another's": {line("1", "web/front-1", "no such word"), ""},
		"own first": {line("1", own, fault) + line("2", "web/front-1", fault), own},
		"plugin's":  {line("1", "kube-system/gpu-device-plugin-x", "no such word"), "plugin-x"},
		"of a container": {"time=\"2026-11-22T10:00:00Z\" level=error msg=\"RunPodSandbox for " +
			"&PodSandboxMetadata{Name:front-1,Uid:1,Namespace:web,Attempt:0,} failed, error\"\n", ""},
	} {
		e := evidence(objects)
		e.Add("kubelet.log", []byte(tt.log))
		r, said := e.Diagnose(), ""
		for _, f := range r.Causes {
			said += f.Line.Text
		}
		for _, line := range r.Errors {
			said += line.Text
		}
		if !strings.Contains(said, tt.want) || tt.want == "" && said != "" {
			t.Errorf("%s: %q, want %q", name, said, tt.want)
		}
	}
}

// TestAlias: a message of QEMU that names a device by its id is about the device of the domain that has
// it as its alias.
func TestAlias(t *testing.T) {
	e := evidence("kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
		"status: {phase: Failed, nodeName: gpu-1}\n")
	e.domain = "<domain><hostdev><source><address domain='0x0000' bus='0x3b' slot='0x00' " +
		"function='0x0'/></source><alias name='ua-gpu-g1'/></hostdev><hostdev><source><address " +
		"domain='0x0000' bus='0x86' slot='0x00' function='0x1'/></source><alias name='ua-gpu-g10'/>" +
		"</hostdev></domain>"
	e.Add("compute.log", []byte("qemu-kvm: -device vfio-pci,id=ua-gpu-g10: VFIO_MAP_DMA failed: "+
		"Cannot allocate memory\n"))
	r := e.Diagnose()
	if len(r.Causes) == 0 || !strings.Contains(strings.Join(r.Causes[0].About, ", "), "0000:86:00.1") {
		t.Errorf("%+v, errors %+v", r.Causes, r.Errors)
	}
}

// TestSplitLock: that a guest takes split locks is noted for a VM that runs, as of a VM of its node.
func TestSplitLock(t *testing.T) {
	const log = "Nov 22 10:06:00 NODE kernel: x86/split lock detection: #AC: CPU 0/KVM/4711 took a " +
		"split_lock trap at address: 0xfffff8035"
	for node, want := range map[string]int{"gpu-1": 1, "gpu-2": 0} {
		e := evidence()
		e.Add("journal.txt", []byte(strings.ReplaceAll(log, "NODE", node)))
		e.Add("objects.yaml", []byte(runs))
		r := e.Diagnose()
		if len(r.State.Notes) != want || len(r.Causes)+len(r.Errors) > 0 || r.Fails() {
			t.Errorf("%s: %q, %s", node, r.State.Notes, causes(r.Causes))
		}
	}
}
