package abuse

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
)

// vmiWith returns a VMI that has the value wherever a VMI has text of a user.
func vmiWith(t *testing.T, value string) []byte {
	t.Helper()
	device := []any{
		map[string]any{"name": value, "deviceName": "vendor.example/" + value},
		map[string]any{"name": "b" + value, "deviceName": "nvidia.com/gpu"},
	}

	data, err := json.Marshal(map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
		"metadata": map[string]any{
			"name":      value,
			"namespace": value,
			"annotations": map[string]any{
				policy.AnnotationPrefix + "layout": value, policy.AnnotationPrefix + value: value,
			},
		},
		"spec": map[string]any{
			"domain": map[string]any{"devices": map[string]any{"gpus": device,
				"hostDevices": device}},
		},
	})

	expect.NoError(t, err)
	return data
}

// TestNothingUnescaped: no input reaches an attribute unescaped. Whatever a user
// names a device, the result is XML and has no elements but the known ones.
func TestNothingUnescaped(t *testing.T) {
	added := 0
	for i, value := range evil {
		for _, add := range []string{"requested", "all"} {
			t.Run(fmt.Sprintf("%d %s", i, add), func(t *testing.T) {
				variables, problems := env.ParseVariables([]string{
					"PCI_RESOURCE_NVIDIA_COM_GPU=0000:02:00.0",
					"PCI_RESOURCE_" + value + "=0000:02:00.0",
					"MDEV_PCI_RESOURCE_VENDOR_EXAMPLE_" + strings.ToUpper(value) +
						"=4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01",
				})

				m := plan.Planner{
					Sysfs:     hostOfOne(t),
					Variables: variables,
					Problems:  problems,
					Source:    policy.Source{Flags: map[policy.Key]string{policy.KeyAdd: add}},
				}

				const domain = `<domain type="kvm"><name>a</name><os>` +
					`<type arch="x86_64" machine="q35">hvm</type></os><devices></devices></domain>`
				result := m.Read(plan.Request{
					Domain: []byte(domain), VMI: vmiWith(t, value),
				}).Plan()

				if result.Err != nil {
					if string(result.Domain) != domain {
						t.Errorf("an error, and the domain changed: %s", result.Domain)
					}
					return
				}

				added += strings.Count(string(result.Domain), "<hostdev")
				wantKnownElements(t, result.Domain)
			})
		}
	}

	if added == 0 {
		t.Error("no device was added in any case, so nothing was tried")
	}
}

// known has the elements that the product writes, and those of the domain.
var known = map[string]bool{
	"domain": true, "name": true, "os": true, "type": true, "devices": true, "hostdev": true,
	"source":  true,
	"address": true, "alias": true, "controller": true, "target": true, "node": true, "model": true,
	"driver": true,
}

func wantKnownElements(t *testing.T, document []byte) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(string(document))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}

		if err != nil {
			t.Fatalf("%v in %s", err, document)
		}

		switch token := token.(type) {
		case xml.StartElement:
			if !known[token.Name.Local] {
				t.Errorf("element %s in %s", token.Name.Local, document)
			}
		case xml.Comment, xml.ProcInst, xml.Directive:
			t.Errorf("%T in %s", token, document)
		}
	}
}
