package kubevirt

import (
	"encoding/xml"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/plugins"

	"hook-sidecar/test/oracle"
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

// TestPluginAfterHook: one process serves both sockets. The hook gives PCI hostdevs
// the mode that KubeVirt's translation requires, and the plugin writes again what
// KubeVirt's types have lost of the hook's answer.
func TestPluginAfterHook(t *testing.T) {
	lib := oracle.New(t)
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			sidecar := start(t, "hook-sidecar-0", s.host, "--plugin-socket", pluginSocket)
			manager := launcher(t, 1)
			plain := sampleVMI(t, s.name, nil)
			// A Plugin that changes nothing: the translation alone.
			none := pipeline(legacy(manager.OnDefineDomain, sampleVMI(t, s.name, map[string]string{"layout": "keep"})), plain, unrelated())
			without := (&boot{t: t, vmi: plain, hook: none, libvirt: lib}).run(sample(t, s.name+".xml"))
			for _, layout := range []string{"keep", "numa", "root", "mirror"} {
				t.Run(layout, func(t *testing.T) {
					vmi := sampleVMI(t, s.name, map[string]string{"layout": layout})
					ask := pipeline(legacy(manager.OnDefineDomain, vmi), vmi, unrelated(), hostdev())
					calls := (&boot{t: t, vmi: vmi, hook: ask, libvirt: lib}).run(sample(t, s.name+".xml"))
					checkBoot(t, calls, without, s.placed[layout])
					checkStable(t, ask, calls[len(calls)-1])
				})
			}
			if err := manager.Shutdown(); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			sidecar.ended(t)
		})
	}
}

// TestPluginAlone: without the hook, a domain with an mdev is placed as with it.
// With a PCI hostdev KubeVirt does not call the plugin: its translation cannot read
// its own first domain (kubevirt issue 18861).
func TestPluginAlone(t *testing.T) {
	lib := oracle.New(t)
	sidecar := start(t, "plugin-sidecar-0", "x86-2n2g-t4-vgpu", "--socket-dir", "", "--plugin-socket", pluginSocket)
	for _, layout := range []string{"root", "mirror"} {
		t.Run(layout, func(t *testing.T) {
			name := "03-vgpu-mdev-display"
			vmi := sampleVMI(t, name, map[string]string{"layout": layout})
			without := (&boot{t: t, vmi: vmi, hook: pipeline(identity, vmi, unrelated()), libvirt: lib}).run(sample(t, name+".xml"))
			ask := pipeline(identity, vmi, hostdev())
			calls := (&boot{t: t, vmi: vmi, hook: ask, libvirt: lib}).run(sample(t, name+".xml"))
			checkBoot(t, calls, without, 1)
			checkStable(t, ask, calls[len(calls)-1])
		})
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
	lib := oracle.New(t)
	name := "02-8gpu-8nic-gate-off"
	start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100")
	vmi := sampleVMI(t, name, map[string]string{"layout": "mirror"})
	ask := legacy(launcher(t, 1).OnDefineDomain, vmi)
	direct := (&boot{t: t, vmi: vmi, hook: ask, libvirt: lib}).run(sample(t, name+".xml"))
	translated := (&boot{t: t, vmi: vmi, hook: pipeline(ask, vmi, unrelated()), libvirt: lib}).run(sample(t, name+".xml"))
	want := map[string]string{}
	for id, place := range placed(t, direct[len(direct)-1].readback) {
		want[id] = strings.ReplaceAll(place, " hotplug=off", "")
	}
	if d := cmp.Diff(want, placed(t, translated[len(translated)-1].readback)); d != "" || len(want) != 16 {
		t.Errorf("%d places (-without the Plugin, less hotplug +with it):\n%s", len(want), d)
	}
}

// TestOptionsOfQEMU: KubeVirt's types lose qemu:commandline between calls. Every
// definition has each option of the hook once, from a hook or a plugin. With another
// Plugin in the cluster KubeVirt loses it from a hook's answer (virtwrap/util,
// ApplySidecarHooks); if it has fixed that, correct docs/install.md.
func TestOptionsOfQEMU(t *testing.T) {
	lib := oracle.New(t)
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
		calls := (&boot{t: t, vmi: vmi, hook: way.hook, libvirt: lib}).run(sample(t, name+".xml"))
		if len(calls) < 2 {
			t.Errorf("%s: %d calls", way.name, len(calls))
		}
		for i, c := range calls {
			for _, option := range []string{"value=32,id=hook-sidecar-port-speed", "string=4194304,id=hook-sidecar-mmio-window"} {
				for what, text := range map[string]string{"KubeVirt's": c.answer, "libvirt's": string(c.readback)} {
					if n := strings.Count(text, option); n != way.want {
						t.Errorf("%s: call %d: %s domain has %s %d times, want %d", way.name, i+1, what, option, n, way.want)
					}
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
