package kubevirt

import (
	"encoding/xml"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/plugins"
)

// pluginSocket is the sidecar's socket in the Plugin hostdev. virt-launcher accepts
// only paths in a directory of the plugin's name.
const pluginSocket = pluginDir + "/hostdev/hook.sock"

func plugin(name string, hook pluginv1alpha1.DomainHook) pluginv1alpha1.Plugin {
	return pluginv1alpha1.Plugin{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       pluginv1alpha1.PluginSpec{DomainHooks: []pluginv1alpha1.DomainHook{hook}},
	}
}

// hostdev is the Plugin that asks the program under test.
func hostdev() pluginv1alpha1.Plugin {
	return plugin("hostdev", pluginv1alpha1.DomainHook{Sidecar: &pluginv1alpha1.SidecarDomainHook{SocketPath: pluginSocket}})
}

// unrelated is a Plugin that has nothing to do with devices.
func unrelated() pluginv1alpha1.Plugin {
	return plugin("unrelated", pluginv1alpha1.DomainHook{CEL: &pluginv1alpha1.CELDomainHook{Expression: `Domain{Title: "one of many"}`}})
}

const qemuNamespace = "http://libvirt.org/schemas/domain/qemu/1.0"

// hook answers a call with the domain to define, and changes the spec to what KubeVirt
// continues with.
type hook func(*api.DomainSpec) (string, error)

// twice calls a hook for a sample as virt-launcher does in a boot. Between the calls the
// domain loses what KubeVirt's types do not have.
func twice(t *testing.T, name string, ask hook) (answers [2]string) {
	t.Helper()
	spec := firstSpec(t, name)
	for i := range answers {
		// encoding/xml does not read this attribute back; the converter sets it
		// (virtwrap/api/defaults.go).
		spec.XmlNS = qemuNamespace
		var err error
		if answers[i], err = ask(spec); err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
	}
	return answers
}

// legacy is ApplySidecarHooks of virtwrap/util/libvirt_helper.go: the answer is
// defined as it is, and KubeVirt continues with what its types keep of it.
func legacy(onDefineDomain func(*api.DomainSpec, *v1.VirtualMachineInstance) (string, error), vmi *v1.VirtualMachineInstance) hook {
	return func(spec *api.DomainSpec) (string, error) {
		answer, err := onDefineDomain(spec, vmi)
		if err != nil {
			return "", err
		}
		read := &api.DomainSpec{}
		if err := xml.Unmarshal([]byte(answer), read); err != nil {
			return "", fmt.Errorf("KubeVirt reads the answer: %w", err)
		}
		read.DeepCopyInto(spec)
		return answer, nil
	}
}

// identity is a VM without any hook.
func identity(spec *api.DomainSpec) (string, error) {
	answer, err := xml.MarshalIndent(spec, "", "\t")
	return string(answer), err
}

// pipeline is SetDomainSpecStrWithHooks of virtwrap/util/libvirt_helper.go with
// Plugins in the cluster: before is the hooks' answer, and KubeVirt defines its
// translation of what its types keep of that.
func pipeline(before hook, vmi *v1.VirtualMachineInstance, list ...pluginv1alpha1.Plugin) hook {
	return func(spec *api.DomainSpec) (string, error) {
		if _, err := before(spec); err != nil {
			return "", err
		}
		updated, answer, err := plugins.ApplyDomainHooks(list, vmi, spec, pluginv1alpha1.InvocationContextBoot)
		if err != nil {
			return "", err
		}
		updated.DeepCopyInto(spec)
		return answer, nil
	}
}

// TestPluginAlone: without the hook, a domain with an mdev is placed. With a PCI
// hostdev KubeVirt does not call the plugin: its translation cannot read its own first
// domain (kubevirt issue 18861).
func TestPluginAlone(t *testing.T) {
	sidecar := start(t, "plugin-sidecar-0", "x86-2n2g-t4-vgpu", "--socket-dir", "", "--plugin-socket", pluginSocket)
	for _, layout := range []string{"root", "mirror"} {
		name := "03-vgpu-mdev-display"
		answers := twice(t, name, pipeline(identity, sampleVMI(t, name, map[string]string{"layout": layout}), hostdev()))
		first, second := placed(t, answers[0]), placed(t, answers[1])
		if d := cmp.Diff(first, second); d != "" || len(first) != 1 {
			t.Errorf("%s: %d places (-first call +second):\n%s", layout, len(first), d)
		}
	}
	_, err := pipeline(identity, sampleVMI(t, "01-single-gpu", nil), hostdev())(firstSpec(t, "01-single-gpu"))
	if want := "Missing 'mode' attribute"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a PCI hostdev without the hook: %v, want %q; if KubeVirt has fixed it, correct docs/install.md", err, want)
	}
	if err := sidecar.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	sidecar.ended(t)
}

// TestHookBeforeOtherPlugin: only the hook is served, and the cluster has another
// Plugin. KubeVirt then defines its translation of what its types keep of the
// answer: the places, but not hotplug='off' of their ports, for which v1.9.0 has no
// field (virtwrap/api/schema.go, ControllerTarget).
func TestHookBeforeOtherPlugin(t *testing.T) {
	name := "02-8gpu-8nic-gate-off"
	start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100")
	vmi := sampleVMI(t, name, map[string]string{"layout": "mirror"})
	ask := legacy(launcher(t, 1).OnDefineDomain, vmi)
	want := map[string]string{}
	for id, place := range placed(t, twice(t, name, ask)[1]) {
		want[id] = strings.ReplaceAll(place, " hotplug=off", "")
	}
	if d := cmp.Diff(want, placed(t, twice(t, name, pipeline(ask, vmi, unrelated()))[1])); d != "" || len(want) != 16 {
		t.Errorf("%d places (-without the Plugin, less hotplug +with it):\n%s", len(want), d)
	}
}

// TestOptionsOfQEMU: KubeVirt's types lose qemu:commandline between calls. Every
// definition has each option of the hook once, from a hook or a plugin. With another
// Plugin in the cluster KubeVirt loses it from a hook's answer (virtwrap/util,
// ApplySidecarHooks); if it has fixed that, correct docs/install.md.
func TestOptionsOfQEMU(t *testing.T) {
	name := "02-8gpu-8nic-gate-off"
	start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100", "--plugin-socket", pluginSocket)
	vmi := sampleVMI(t, name, map[string]string{"layout": "root", "port-speed": "host", "mmio-window": "auto"})
	ask := legacy(launcher(t, 1).OnDefineDomain, vmi)
	for _, way := range []struct {
		name string
		hook hook
		want int
	}{
		{"a hook", ask, 1},
		{"a plugin after the hook", pipeline(ask, vmi, unrelated(), hostdev()), 1},
		{"a plugin before another", pipeline(ask, vmi, hostdev(), unrelated()), 1},
		{"a hook and another Plugin", pipeline(ask, vmi, unrelated()), 0},
	} {
		for i, answer := range twice(t, name, way.hook) {
			for _, option := range []string{"value=32,id=hook-sidecar-port-speed", "string=4194304,id=hook-sidecar-mmio-window"} {
				if n := strings.Count(answer, option); n != way.want {
					t.Errorf("%s: call %d: the domain has %s %d times, want %d", way.name, i+1, option, n, way.want)
				}
			}
		}
	}
}

// TestMigrationTarget: KubeVirt ignores the answer there, so the domain is returned
// unchanged, strict or not.
func TestMigrationTarget(t *testing.T) {
	name := "02-8gpu-8nic-gate-off"
	start(t, "plugin-sidecar-0", "x86-2n8g-hgx-h100", "--socket-dir", "", "--plugin-socket", pluginSocket, "--strict")
	spec := firstSpec(t, name)
	spec.Devices.HostDevices = nil
	want, err := xml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := plugins.ApplyDomainHooks([]pluginv1alpha1.Plugin{hostdev()}, sampleVMI(t, name, nil), spec, pluginv1alpha1.InvocationContextMigrationTarget)
	if err != nil {
		t.Fatal(err)
	}
	text, err := xml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "pcie-expander-bus") || len(got.Devices.Controllers) != len(spec.Devices.Controllers) {
		t.Errorf("the domain of a migration target changed:\n%s\nwas:\n%s", text, want)
	}
}
