package plan_test

import (
	"bytes"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
)

// TestCloudInit: cloud-init's data changes where flag or annotation asks for it, and is
// returned as it came in every other case, also with strict policy.
func TestCloudInit(t *testing.T) {
	const data = `{"DataSource":"noCloud","UserData":"#cloud-config\n","VolumeName":"init"}`
	vmi := func(annotations string) string {
		return `{"kind": "VirtualMachineInstance", "metadata": {"name": "vm", "annotations": {` +
			annotations + `}}}`
	}

	key := `"hostdev.vm.kubevirt.io/`
	asks := map[policy.Key]string{policy.KeyNCCLTopology: "cloudinit", policy.KeyStrict: "true"}
	for name, tc := range map[string]struct {
		flags     map[policy.Key]string
		locked    []policy.Key
		vmi, data string
		changes   bool
		err       string
	}{
		"flag": {flags: asks, vmi: vmi(""), data: data, changes: true},
		"annotation": {vmi: vmi(key + `nccl-topology": "cloudinit"`), data: data,
			changes: true},
		"annotation, key locked": {locked: []policy.Key{
			policy.KeyNCCLTopology,
		}, vmi: vmi(key + `nccl-topology": "cloudinit"`), data: data},
		"flag, annotation fwcfg": {flags: asks, vmi: vmi(key + `nccl-topology": "fwcfg"`),
			data: data},
		"flag, key locked": {flags: asks, locked: []policy.Key{
			policy.KeyNCCLTopology,
		}, vmi: vmi(key + `nccl-topology": "none"`), data: data, changes: true},
		"dry run": {flags: asks, vmi: vmi(key + `dry-run": "true"`), data: data},
		"default": {vmi: vmi(""), data: data},
		"flag, wrong annotation": {flags: asks, vmi: vmi(key + `layout": "none"`), data: data,
			changes: true},
		"flag, no VMI": {flags: asks, vmi: "", data: data, err: "parse VMI"},
		"flag, other agent": {flags: asks, vmi: vmi(""), data: `{"UserData": "{}"}`,
			err: "nothing that cloud-init knows"},
		"flag, no data": {flags: asks, vmi: vmi(""), data: "null",
			err: "no cloud-init data"},
		"default, no data at all": {vmi: vmi(""), data: ""},
	} {
		m := plan.Planner{
			Source: policy.Source{Flags: tc.flags, AnnotationsFirst: true, Locked: tc.locked},
		}

		result := m.CloudInit([]byte(tc.vmi), []byte(tc.data))
		if changed := !bytes.Equal(result.Data, []byte(tc.data)); changed != tc.changes ||
			changed != strings.Contains(string(result.Data), "#cloud-boothook") {
			t.Errorf("%s: changed %t, want %t: %s", name, changed, tc.changes, result.Data)
		}

		if (result.Err == nil) != (tc.err == "") || result.Err != nil &&
			!strings.Contains(result.Err.Error(), tc.err) {
			t.Errorf("%s: error %v, want %q", name, result.Err, tc.err)
		}
	}
}
