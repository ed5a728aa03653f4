package speed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"hook-sidecar/testdata"
)

// VM is what virt-launcher passes to a hook.
type VM struct{ Domain, VMI []byte }

// Demo returns KubeVirt's VM with 8 GPUs and 8 NICs.
func Demo() (vm VM, err error) {
	if vm.Domain, err = testdata.Demo.ReadFile(testdata.DemoDomain); err != nil {
		return vm, err
	}
	vm.VMI, err = testdata.Demo.ReadFile(testdata.DemoVMI)
	return vm, err
}

// hostdevs are all hostdevs of a domain, which are next to each other.
var hostdevs = regexp.MustCompile(`(?s)<hostdev .*</hostdev>`)

// VMWith returns KubeVirt's VM with other devices: the PCI addresses of a GPU, a NIC, a
// GPU, and so on, and the UUIDs of mediated devices.
func VMWith(ids []string) (VM, error) {
	vm, err := Demo()
	if err != nil {
		return vm, err
	}

	lists := map[string][]any{"gpus": {}, "hostDevices": {}}
	var elements strings.Builder
	for i, id := range ids {
		list, prefix, name, resource := "gpus", "ua-gpu-", fmt.Sprintf("gpu%d",
			i), "nvidia.com/GH100_H100_SXM5_80GB"
		if i%2 == 1 {
			list, prefix, name, resource = "hostDevices", "ua-hostdevice-", fmt.Sprintf("nic%d",
				i), "mellanox.com/MT2910"
		}

		lists[list] = append(lists[list], map[string]any{"name": name, "deviceName": resource})
		elements.WriteString(hostdev(id, prefix+name))
	}

	vm.Domain = hostdevs.ReplaceAllLiteral(vm.Domain, []byte(elements.String()))
	return vm.edit(func(vmi map[string]any) {
		devices := vmi["spec"].(map[string]any)["domain"].(map[string]any)["devices"].(map[string]any)
		devices["gpus"], devices["hostDevices"] = lists["gpus"], lists["hostDevices"]
	})
}

// hostdev returns a device as KubeVirt writes it.
func hostdev(id, alias string) string {
	kind, source := `type="pci" managed="no"`, ""
	if strings.Contains(id, ":") {
		source = fmt.Sprintf(`type="pci" domain="0x%s" bus="0x%s" slot="0x%s" function="0x%s"`,
			id[:4], id[5:7], id[8:10], id[11:])
	} else {
		kind, source = `type="mdev" mode="subsystem" model="vfio-pci"`, fmt.Sprintf("uuid=%q", id)
	}

	return fmt.Sprintf("\t\t<hostdev %s>\n\t\t\t<source>\n\t\t\t\t<address %s></address>\n"+
		"\t\t\t</source>\n\t\t\t<alias name=%q></alias>\n\t\t</hostdev>\n", kind, source, alias)
}

// Annotated returns the VM with these annotations and no others.
func (vm VM) Annotated(annotations map[string]string) (VM, error) {
	return vm.edit(func(vmi map[string]any) {
		vmi["metadata"].(map[string]any)["annotations"] = annotations
	})
}

// edit returns the VM with another VMI.
func (vm VM) edit(change func(vmi map[string]any)) (VM, error) {
	vmi := map[string]any{}
	if err := json.NewDecoder(bytes.NewReader(vm.VMI)).Decode(&vmi); err != nil {
		return vm, err
	}

	change(vmi)
	var err error
	vm.VMI, err = json.Marshal(vmi)
	return vm, err
}
