//go:build linux && lane

package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
)

// everyKey locks every key of the policy, as the annotation that KubeVirt 1.9.0 needs beside a plugin.
const everyKey = "layout,strict,add,companions,hotplug-ports,dry-run,nccl-topology,port-speed," +
	"mmio-window,viommu,gpudirect-clique"

// page are the commands of docs/install.md, which run as they are there, in a copy of the
// directory manifests.
type page struct {
	c      *cluster
	dir    string
	blocks map[string][]string // by heading, those of a shell and of YAML
	ran    map[string]bool
}

// notHere are the blocks that do not run here, and why.
var notHere = map[string]string{
	"Image and gates 0":        "buildx and a registry; test/image builds the image with buildah",
	"Under the sidecar-shim 0": "buildx and a registry",
	"The HGX recipe 0":         "make launcher and make recipe run it",
	"As a structured plugin 0": "an annotation, which the test takes for its VM",
	"As a structured plugin 1": "annotates all VMs; those of the test have the annotation",
	"KubeVirt 1.10 0": "KubeVirt 1.10; on 1.9.0 the cluster refuses it, which the " +
		"test sees",
	"Settings of the plugin 0":    "make manifests sets each key through the ConfigMap",
	"What changes in the guest 1": "what explain prints",
	"Environment variables 0":     "the second command reads files that only a user has; the first runs",
}

func readPage(t *testing.T, c *cluster) *page {
	t.Helper()
	p := &page{c: c, dir: t.TempDir(), blocks: map[string][]string{}, ran: map[string]bool{}}
	expect.NoError(t, os.CopyFS(filepath.Join(p.dir, "manifests"), os.DirFS("../../manifests")))
	heading, block := "", ""
	inside := false
	for line := range strings.Lines(string(expect.File(t, "../../docs/install.md"))) {
		switch {
		case strings.HasPrefix(line, "```") && inside:
			p.blocks[heading] = append(p.blocks[heading], block)
			inside = false

		case strings.HasPrefix(line, "```"):
			inside, block = true, ""
		case inside:
			block += line
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}

	return p
}

// run runs the nth block under a heading and returns what it prints.
func (p *page) run(t *testing.T, heading string, n int) string {
	t.Helper()
	if n >= len(p.blocks[heading]) {
		t.Fatalf("docs/install.md has no command %d under %q", n, heading)
	}

	p.ran[key(heading, n)] = true
	out, err := p.shell(p.blocks[heading][n])
	if err != nil {
		t.Fatalf("%s: %v\n%s", key(heading, n), err, out)
	}

	return out
}

func key(heading string, n int) string { return heading + " " + string(rune('0'+n)) }

// shell runs commands with the variables of the page's first ones. A console is for a
// terminal.
func (p *page) shell(script string) (string, error) {
	script = regexp.MustCompile(`(?m)^virtctl console .*$`).ReplaceAllString(script, "")
	command := p.c.command(admin, "bash", "-euo", "pipefail", "-c", "VM=my-vm IMAGE="+hookImage+
		"\n"+script)
	command.Dir = p.dir
	out, err := command.CombinedOutput()
	return string(out), err
}

// testInstall does as the page says with one VM: a hook sidecar, then the plugin, then
// removal. Both place its devices in the same way.
func (p *page) testInstall(t *testing.T) {
	c := p.c
	v := vm{name: "my-vm", devices: all, dedicated: 2, restarts: true}
	v.apply(t, c)
	c.await(t, "the first VMI", func() bool { return v.uid(c) != "" })
	before := v.uid(c)
	p.run(t, "As a hook sidecar", 0)
	c.await(t, "the restart", func() bool { uid := v.uid(c); return uid != "" && uid != before })
	hooked := v.check(t, c, "auto")
	if out := p.run(t, "Did it work?", 0); !strings.Contains(out, `"msg":"domain planned"`) ||
		!strings.Contains(out, "15 of 15 pairs") {
		t.Errorf("Did it work? prints:\n%s", out)
	}

	if out := p.run(t, "What changes in the guest", 0); !strings.Contains(out, "my-vm") {
		t.Errorf("What changes in the guest prints:\n%s", out)
	}

	t.Run("plugin", func(t *testing.T) { p.testPlugin(t, v, hooked) })
	v.delete(t, c)
	p.remove(t)

	for heading, blocks := range p.blocks {
		for n := range blocks {
			if k := key(heading, n); !p.ran[k] && notHere[k] == "" {
				t.Errorf("%q was not run, and is not among those that do not run here:\n%s", k,
					blocks[n])
			}
		}
	}
}

// testPlugin: the plugin places as the hook sidecar has, at the next start. Without the
// hook that adds the mode KubeVirt 1.9.0 fails, without the label there is no sidecar, and
// without the settings the pod is refused.
func (p *page) testPlugin(t *testing.T, v vm, hooked map[string]boot.Expected) {
	c := p.c
	name, value, _ := strings.Cut(strings.TrimSpace(p.blocks["As a structured plugin"][0]), ": ")
	value = strings.ReplaceAll(strings.Trim(value, "'"), "registry.example.com/hook-sidecar:v1",
		hookImage)
	patch, err := json.Marshal(object{
		"spec": object{"template": object{"metadata": object{"annotations": object{name: value}}}},
	})

	expect.NoError(t, err)
	c.kubectl(t, "patch", "vm", v.name, "--type=merge", "-p", string(patch))
	before := v.uid(c)
	p.run(t, "As a structured plugin", 2)

	bare := vm{name: "bare", labels: placement, devices: "vf", never: true}
	bare.apply(t, c)
	plain := vm{name: "plain", never: true}
	plain.apply(t, c)
	c.await(t, "the pod of plain", func() bool {
		return strings.Contains(plain.containers(c), "compute")
	})

	if containers := plain.containers(c); strings.Contains(containers, "hook-sidecar") {
		t.Errorf("the pod without the label has %s", containers)
	}

	plain.delete(t, c)
	keep := []string{"--layout", "keep", "--lock", everyKey}
	both := vm{
		name:    "both",
		labels:  placement,
		hooks:   [][]string{keep, nil},
		layout:  "root",
		devices: "mdev",
	}

	both.apply(t, c)
	c.await(t, "the restart", func() bool { uid := v.uid(c); return uid != "" && uid != before })
	expect.Same(t, hooked, v.check(t, c, "auto"),
		"places (-with the hook sidecar +with the plugin)")
	if log := v.logs(c, "hook-sidecar"); !strings.Contains(log, `"outcome":"placed"`) {
		t.Errorf("the plugin placed nothing:\n%s", log)
	}

	bare.await(t, c, "KubeVirt's error", func() bool {
		return strings.Contains(bare.output(c, "get", "events", "--field-selector",
			"involvedObject.name=bare"), "Missing 'mode' attribute")
	})

	bare.awaitWhy(t, c, "hostdev-mode")
	bare.delete(t, c)
	if out, err := p.shell(p.blocks["KubeVirt 1.10"][0]); err == nil ||
		!strings.Contains(out, `unknown field "spec.launcherHooks"`) {
		t.Errorf("the plugin for KubeVirt 1.10: %v\n%s", err, out)
	}

	both.check(t, c, "root")
	both.delete(t, c)

	c.kubectl(t, "patch", "configmap", "-n", "kubevirt", "hook-sidecar", "--type=json", "-p",
		`[{"op": "remove", "path": "/data/strict"}]`)
	p.refuses(t, "incomplete").delete(t, c)
	c.kubectl(t, "delete", "configmap", "-n", "kubevirt", "hook-sidecar")
	refused := p.refuses(t, "refused")
	apply, _, _ := strings.Cut(p.blocks["As a structured plugin"][2], "\n")
	if out, err := p.shell(apply); err != nil {
		t.Fatalf("%s: %v\n%s", apply, err, out)
	}

	c.await(t, "the pod with the settings", func() bool {
		return strings.Contains(refused.containers(c), "hook-sidecar")
	})

	refused.delete(t, c)
}

// refuses applies a VM whose pod is refused, with what to do.
func (p *page) refuses(t *testing.T, name string) vm {
	t.Helper()
	v := vm{name: name, labels: placement, never: true}
	v.apply(t, p.c)
	p.c.await(t, "the refusal", func() bool {
		return strings.Contains(v.output(p.c, "get", "events", "--field-selector",
			"involvedObject.name="+name),
			"ConfigMap hook-sidecar in KubeVirt's namespace is missing, or one of its keys")
	})

	v.awaitWhy(t, p.c, "plugin-settings")
	return v
}

// remove does as the row of the page's table.
func (p *page) remove(t *testing.T) {
	t.Helper()
	const command = "kubectl delete -k manifests/plugin"
	if !strings.Contains(string(expect.File(t, "../../docs/install.md")), "`"+command+"`") {
		t.Errorf("docs/install.md does not have %s", command)
	}

	if out, err := p.shell(command); err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}

	if left := p.c.kubectl(t, "get",
		"plugin,mutatingadmissionpolicy,mutatingadmissionpolicybinding,configmap", "-A", "-o",
		"name"); strings.Contains(left, "hook-sidecar") || strings.Contains(left, "hostdev") {
		t.Errorf("after the removal there are:\n%s", left)
	}
}
