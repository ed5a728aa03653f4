package manifests

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/plugins/cel"
	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
)

// pod returns a pod of virt-launcher as KubeVirt 1.9 renders it for manifests/plugin/vm.yaml with
// the gate Plugins; testdata/README.md says how it was recorded.
func pod(t *testing.T) *corev1.Pod {
	t.Helper()
	p := one[*corev1.Pod](t,
		decode(t, "pod", read(t, filepath.Join("testdata", "virt-launcher.json"))))
	p.TypeMeta = metav1.TypeMeta{} // as in the memory of kube-apiserver
	return p
}

func pluginObjects(t *testing.T) []runtime.Object {
	t.Helper()
	return build(t, filepath.Join(dir, "plugin"))
}

func TestSidecarIsInjected(t *testing.T) {
	server := newAPIServer(t, pluginObjects(t))
	before := pod(t)
	after, err := server.createPod(t, before)
	expect.NoError(t, err)
	added := len(after.Spec.InitContainers) - 1
	if added != len(before.Spec.InitContainers) {
		t.Fatalf("%d init containers, of %d", added+1, len(before.Spec.InitContainers))
	}

	sidecar := after.Spec.InitContainers[added]
	wantRestricted(t, sidecar)

	if sidecar.RestartPolicy == nil ||
		*sidecar.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("restart policy %v: the pod would wait for the hook to end before it starts",
			sidecar.RestartPolicy)
	}

	if want := "registry.example.com/hook-sidecar:v1"; sidecar.Image != want {
		t.Errorf("image %q, want %q", sidecar.Image, want)
	}

	// The rest of the pod does not change.
	after.Spec.InitContainers = slices.Delete(after.Spec.InitContainers, added, added+1)
	if len(after.Spec.InitContainers) == 0 {
		after.Spec.InitContainers = nil
	}

	expect.Same(t, before, after, "the rest of the pod changed (-before +after)")
}

// wantRestricted wants what Pod Security's profile "restricted" requires, and more.
func wantRestricted(t *testing.T, c corev1.Container) {
	t.Helper()
	s := c.SecurityContext
	if s == nil {
		t.Fatal("no security context")
	}

	for name, ok := range map[string]bool{
		"runs as 107": s.RunAsUser != nil && *s.RunAsUser == 107 &&
			s.RunAsGroup != nil && *s.RunAsGroup == 107,
		"is not root": s.RunAsNonRoot != nil && *s.RunAsNonRoot,
		"no privileges": s.Privileged != nil && !*s.Privileged &&
			s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation,
		"root is read-only": s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem,
		"no capabilities": s.Capabilities != nil &&
			slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) &&
			len(s.Capabilities.Add) == 0,
		"seccomp": s.SeccompProfile != nil &&
			s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no devices, no environment": len(c.VolumeDevices) == 0 && len(c.Env) == 0,
		"one mount": len(c.VolumeMounts) == 1 &&
			c.VolumeMounts[0].Name == "kubevirt-plugin-sockets" &&
			c.VolumeMounts[0].SubPath == "hostdev" &&
			c.VolumeMounts[0].MountPath == "/var/run/kubevirt-plugin/hostdev",
	} {
		if !ok {
			t.Errorf("the sidecar lacks: %s", name)
		}
	}
}

// TestPodStaysGuaranteed: with a container whose requests differ from its limits
// the pod loses the class Guaranteed (Kubernetes, "Pod Quality of Service Classes"),
// and KubeVirt's dedicated CPUs with it.
func TestPodStaysGuaranteed(t *testing.T) {
	server := newAPIServer(t, pluginObjects(t))
	after, err := server.createPod(t, pod(t))
	expect.NoError(t, err)

	for _, c := range slices.Concat(after.Spec.InitContainers, after.Spec.Containers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, request := c.Resources.Limits[name], c.Resources.Requests[name]
			if limit.IsZero() || limit.Cmp(request) != 0 {
				t.Errorf("container %s: %s requests %s, limit %s", c.Name, name, request.String(),
					limit.String())
			}
		}
	}
}

func TestSidecarOfAPodWithoutInitContainers(t *testing.T) {
	server := newAPIServer(t, pluginObjects(t))
	bare := pod(t)
	bare.Spec.InitContainers = nil
	after, err := server.createPod(t, bare)
	expect.NoError(t, err)
	if len(after.Spec.InitContainers) != 1 {
		t.Errorf("%d init containers, want the hook", len(after.Spec.InitContainers))
	}
}

func TestOtherPodsStayAsTheyAre(t *testing.T) {
	server := newAPIServer(t, pluginObjects(t))
	for name, change := range map[string]func(*corev1.Pod){
		"the VM does not ask": func(p *corev1.Pod) { delete(p.Labels, label) },
		"the VM asks for not": func(p *corev1.Pod) { p.Labels[label] = "disabled" },
		"no virt-launcher": func(p *corev1.Pod) {
			p.Labels[kubevirtv1.AppLabel] = "hotplug-disk"
		},
		"no gate Plugins": func(p *corev1.Pod) {
			isSockets := func(v corev1.Volume) bool { return v.Name == "kubevirt-plugin-sockets" }
			p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, isSockets)
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := pod(t)
			change(other)
			after, err := server.createPod(t, other)
			expect.NoError(t, err)
			expect.Same(t, other, after, "the pod changed (-before +after)")
		})
	}
}

// TestSettingsAreMissing: where the sidecar cannot be injected the pod is refused, and a person
// reads what to do. Otherwise a VM that asks for the hook would start without it.
func TestSettingsAreMissing(t *testing.T) {
	settings := func(change func(data map[string]string)) func(runtime.Object) bool {
		return func(o runtime.Object) bool {
			c, isSettings := o.(*corev1.ConfigMap)
			if isSettings && change != nil {
				change(c.Data)
			}
			return isSettings && change == nil
		}
	}

	tests := map[string]func(o runtime.Object) (isRemoved bool){
		"no ConfigMap": settings(nil),
		"no data":      settings(func(data map[string]string) { clear(data) }),
		"no injector": func(o runtime.Object) bool {
			_, isInjector := o.(*admissionv1.MutatingAdmissionPolicy)
			return isInjector
		},
	}

	for _, key := range []string{"image", "layout", "strict", "dry-run", "lock"} {
		tests["no "+key] = settings(func(data map[string]string) { delete(data, key) })
		if key != "lock" { // it has names of keys, no values
			tests["empty "+key] = settings(func(data map[string]string) { data[key] = "" })
		}
	}

	for name, isRemoved := range tests {
		t.Run(name, func(t *testing.T) {
			server := newAPIServer(t, slices.DeleteFunc(pluginObjects(t), isRemoved))
			_, err := server.createPod(t, pod(t))
			if err == nil || !strings.Contains(err.Error(), "apply the plugin's manifests again") ||
				strings.Contains(err.Error(), "expression") {
				t.Errorf("error %v, want one that says what to do", err)
			}
		})
	}
}

// TestEveryKey: each policy key is an argument of the sidecar if it has an entry, and no other entry
// is. A ConfigMap with the entries of before gives the arguments of before.
func TestEveryKey(t *testing.T) {
	arguments := func(change func(data map[string]string)) []string {
		t.Helper()
		objects := pluginObjects(t)
		change(one[*corev1.ConfigMap](t, objects).Data)
		after, err := newAPIServer(t, objects).createPod(t, pod(t))
		expect.NoError(t, err)
		return after.Spec.InitContainers[len(after.Spec.InitContainers)-1].Args
	}

	before := arguments(func(map[string]string) {})
	expect.Same(t, []string{
		"serve", "--socket-dir=", "--plugin-socket=/var/run/kubevirt-plugin/hostdev/hook.sock",
		"--lock=add,companions,viommu,gpudirect-clique", "--layout=auto", "--strict=false",
		"--dry-run=false",
	}, before, "without optional entries (-want +got)")

	got := arguments(func(data map[string]string) {
		for _, s := range policy.Settings() {
			data[string(s.Key)] = s.Values[len(s.Values)-1]
		}
		data["layot"], data["keep"] = "mirror", "x" // no keys
	})
	want := slices.Clone(before[:4])
	for _, s := range policy.Settings() {
		want = append(want, "--"+string(s.Key)+"="+s.Values[len(s.Values)-1])
	}
	expect.Same(t, want, got, "all entries (-want +got)")

	empty := arguments(func(data map[string]string) { data["port-speed"] = "" })
	expect.Same(t, before, empty, "an empty entry (-without +got)")
}

// TestKubeVirtsPolicies: KubeVirt's policies take effect: they refuse a sidecar
// without subPath, and a plugin whose socket is in another directory.
func TestKubeVirtsPolicies(t *testing.T) {
	objects := pluginObjects(t)
	server := newAPIServer(t, objects)
	plugin := one[*pluginv1alpha1.Plugin](t, objects)
	if err := server.createPlugin(t, plugin); err != nil {
		t.Errorf("the plugin is refused: %v", err)
	}

	elsewhere := plugin.DeepCopy()
	elsewhere.Spec.DomainHooks[0].Sidecar.SocketPath = "/var/run/kubevirt-plugin/other/hook.sock"
	if err := server.createPlugin(t, elsewhere); err == nil ||
		!strings.Contains(err.Error(), "socketPath must start with") {
		t.Errorf("another plugin's socket: %v", err)
	}

	loose := pod(t)
	loose.Spec.Containers = append(loose.Spec.Containers, corev1.Container{
		Name:         "loose",
		VolumeMounts: []corev1.VolumeMount{{Name: "kubevirt-plugin-sockets", MountPath: "/x"}},
	})

	if _, err := server.createPod(t, loose); err == nil ||
		!strings.Contains(err.Error(), "must use subPath") {
		t.Errorf("a container without subPath: %v", err)
	}
}

// TestSocketOfPluginAndSidecar: the sidecar serves the socket that virt-launcher
// dials, in the directory that is mounted for it.
func TestSocketOfPluginAndSidecar(t *testing.T) {
	objects := pluginObjects(t)
	after, err := newAPIServer(t, objects).createPod(t, pod(t))
	expect.NoError(t, err)
	plugin := one[*pluginv1alpha1.Plugin](t, objects)
	path := plugin.Spec.DomainHooks[0].Sidecar.SocketPath
	sidecar := after.Spec.InitContainers[len(after.Spec.InitContainers)-1]
	if !slices.Contains(sidecar.Args, "--plugin-socket="+path) {
		t.Errorf("the sidecar has %v, virt-launcher dials %s", sidecar.Args, path)
	}

	if filepath.Clean(path) != path || filepath.Dir(path) != sidecar.VolumeMounts[0].MountPath ||
		filepath.Base(filepath.Dir(path)) != plugin.Name {
		t.Errorf("socket %s of plugin %s, mounted at %s", path, plugin.Name,
			sidecar.VolumeMounts[0].MountPath)
	}
}

// TestPluginCondition evaluates the plugin's condition with KubeVirt's own code: it
// is true only for VMs that ask for the hook, which have a socket to wait for.
func TestPluginCondition(t *testing.T) {
	condition := one[*pluginv1alpha1.Plugin](t, pluginObjects(t)).Spec.Condition
	evaluator, err := cel.NewEvaluator()
	expect.NoError(t, err)

	for name, tt := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"asks":         {map[string]string{label: "enabled"}, true},
		"asks for not": {map[string]string{label: "disabled"}, false},
		"other labels": {map[string]string{"app": "x"}, false},
		"no labels":    {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := &kubevirtv1.VirtualMachineInstance{}
			vmi.Labels = tt.labels
			got, err := evaluator.EvaluateCondition(condition, vmi, &libvirtxml.Domain{})
			if err != nil || got != tt.want {
				t.Errorf("%t, %v, want %t", got, err, tt.want)
			}
		})
	}
}
