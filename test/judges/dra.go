package judges

import (
	"fmt"
	"testing"

	"k8s.io/dynamic-resource-allocation/deviceattribute"
)

// DRA is what Kubernetes' drivers publish of a device. An attribute that they leave out is "".
type DRA struct {
	Root, Node string
	Nodes      []int64 // the list form of Node
}

// AskDRA returns what is published of the GPUs and NICs of a machine.
func AskDRA(tb testing.TB, m Asked) map[string]DRA {
	tb.Helper()
	sysfs := deviceattribute.WithFSFromRoot(m.Dir)
	all := map[string]DRA{}
	for name := range m.devices() {
		var d DRA
		at := m.At[name]
		root, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(at, sysfs)
		if err != nil {
			tb.Errorf("DRA has no PCIe root for %s: %v", at, err)
			continue
		}

		d.Root = *root.Value.StringValue
		node := func(form deviceattribute.AttributeForm) (deviceattribute.DeviceAttribute, bool) {
			a, err := deviceattribute.GetNUMANodeAttributeByPCIBusID(at, form, sysfs)
			return a, err == nil // the error of a device without a node, which has no attribute
		}

		if scalar, isKnown := node(deviceattribute.ScalarAttribute); isKnown {
			d.Node = fmt.Sprint(*scalar.Value.IntValue)
		}
		if list, isKnown := node(deviceattribute.ListAttribute); isKnown {
			d.Nodes = list.Value.IntValues
		}

		all[name] = d
	}

	return all
}
