//go:build linux && lane

package launcher

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"hook-sidecar/test/expect"
)

// recipe returns the VM hgx with "The HGX recipe" of docs/install.md, and with cloud-init data of
// its own. Package boot boots the domain that libvirt holds in the end.
func recipe(t *testing.T) pod {
	t.Helper()
	text := expect.File(t, filepath.Join("..", "..", "docs", "install.md"))
	block := regexp.MustCompile("(?s)\n## The HGX recipe\n.*?```yaml\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/install.md has no HGX recipe")
	}

	template := object{}
	expect.NoError(t, yaml.Unmarshal(block[1], &template))
	p := hgx(t)
	merge(p.VMI.(object), template)
	var sidecars []struct{ Args []string }
	if err := json.Unmarshal([]byte(at(template, "metadata",
		"annotations")["hooks.kubevirt.io/hookSidecars"].(string)), &sidecars); err != nil ||
		len(sidecars) != 1 {
		t.Fatalf("%d sidecars: %v", len(sidecars), err)
	}

	p.Hook = sidecars[0].Args
	spec, devices := at(p.VMI.(object), "spec"), at(p.VMI.(object), "spec", "domain", "devices")
	spec["volumes"] = append(spec["volumes"].([]any), object{
		"name": "init", "cloudInitNoCloud": object{"userData": userData},
	})

	devices["disks"] = append(devices["disks"].([]any), object{
		"name": "init", "disk": object{"bus": "virtio"},
	})

	return p
}

// testCloudInit shows why only a flag announces PreCloudInitIso: KubeVirt's launcher
// panics for a VM without cloud-init. Where it no longer does, the hook may announce the
// call always (hooks.Config.CloudInit). It asks the first hook only.
func testCloudInit(t *testing.T, l lab) {
	r := row{vm: plain, set: func(p *pod) { p.Hook = []string{"--nccl-topology", "cloudinit"} }}
	o := l.here(t, r.pod(t))
	if log := string(o.file(t, "compute.log")); !strings.Contains(log, "nil pointer dereference") ||
		o.Ends["compute"] == 0 {
		t.Errorf("without cloud-init: %q, %v", o.Syncs, o.Ends)
	}

	r = row{vm: recipe, set: func(p *pod) {
		p.Hook, p.Second = []string{
			"--nccl-topology", "cloudinit", "--lock", "nccl-topology", "--dry-run",
		}, []string{"--nccl-topology", "cloudinit"}
	}}

	if got := string(l.here(t, r.pod(t)).file(t, "cloud-init/user-data")); got != userData {
		t.Errorf("KubeVirt asks the second hook, too:\n%s", got)
	}
}

// userData is the owner's. It writes the sysfs attributes of each PCI device.
const userData = `#cloud-config
runcmd:
- for d in /sys/bus/pci/devices/*; do echo $(readlink -f $d) $(cat $d/class $d/max_link_speed $d/max_link_width $d/numa_node $d/resource); done > /srv/pci
`

// merge adds the fields of another object.
func merge(into, from object) {
	for key, value := range from {
		old, isObject := into[key].(object)
		if added, ok := value.(object); ok && isObject {
			merge(old, added)
		} else {
			into[key] = value
		}
	}
}
