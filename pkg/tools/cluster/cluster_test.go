package cluster

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/exec"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/secrets"
)

// TestQuery: where the API server has an object (Kubernetes' API concepts, "Resource URIs"), and
// the right that reading it takes: a list is a right of its own, and a log a resource of its own.
func TestQuery(t *testing.T) {
	for want, q := range map[string]Query{
		"/api/v1/nodes/n": {Resource: "nodes", Name: "n"},
		"/api/v1/pods":    {Resource: "pods"},
		"/api/v1/namespaces/ml/pods/p/log": {
			Resource: "pods", Namespace: "ml", Name: "p", Part: "log",
		},
		"/apis/kubevirt.io/v1/namespaces/ml/virtualmachineinstances": {
			Group: kubeVirt, Resource: VMIs, Namespace: "ml",
		},
		"/apis/resource.k8s.io/v1beta1/resourceslices": {
			Group: "resource.k8s.io", Version: "v1beta1", Resource: "resourceslices",
		},
	} {
		if got := q.path(); got != want {
			t.Errorf("path %s, want %s", got, want)
		}
	}

	for want, q := range map[right]Query{
		{"get", "", "nodes", ""}:       {Resource: "nodes", Name: "n"},
		{"list", "", "pods", "ml"}:     {Resource: "pods", Namespace: "ml"},
		{"get", "", "pods/log", "ml"}:  {Resource: "pods", Namespace: "ml", Name: "p", Part: "log"},
		{"create", "", "pods", "ml"}:   {Resource: "pods", Namespace: "ml", Verb: "create"},
		{"list", kubeVirt, VMIs, "ml"}: {Group: kubeVirt, Resource: VMIs, Namespace: "ml"},
	} {
		if got := q.right(); got != want {
			t.Errorf("right %v, want %v", got, want)
		}
	}
}

// TestRefusals: the hint names the rule only where RBAC has refused. Other refusals are not cured
// by a rule.
func TestRefusals(t *testing.T) {
	pods := right{"list", "", "pods", "ml"}
	listVMs := right{"list", kubeVirt, VMIs, "ml"}
	forbidden := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(text))
	}

	for name, test := range map[string]struct {
		right right
		err   error
		hint  string
	}{
		"RBAC": {
			pods, forbidden(`User "u" cannot list resource "pods"`),
			`you may not list pods in namespace ml; kubectl-clusterrole.yaml of the release allows ` +
				`it, by the rule {apiGroups: [""], resources: ["pods"], verbs: ["list"]}`,
		},
		"admission": {
			pods, forbidden("denied by policy p"),
			"the cluster's policy refuses it, whatever the user's rights",
		},
		"impersonation": {
			pods, forbidden(`User "u" cannot impersonate resource "users"`),
			"you may not impersonate the user or group of --as and --as-group: leave them out, or " +
				"ask for the verb impersonate",
		},
		"no KubeVirt": {
			listVMs, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
			}}, "name another cluster with --context",
		},
		"no such object": {pods, apierrors.NewNotFound(schema.GroupResource{}, "p"), ""},
	} {
		if hint := reasons.HintOf(test.right.wrap("read", test.err)); hint != test.hint {
			t.Errorf("%s: hint %q, want %q", name, hint, test.hint)
		}
	}
}

// TestErrorsHaveNoSecrets: what the API server and a program in a pod print goes through the rules
// for secrets, and stays what it is.
func TestErrorsHaveNoSecrets(t *testing.T) {
	for name, text := range secrets.Spellings {
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(text))
		failed := exec.CodeExitError{Err: errors.New("exit"), Code: 3}
		for _, err := range []error{
			right{"list", "", "pods", "ml"}.wrap("read pods", refusal),
			(&server{}).execError(t.Context(), new(corev1.Pod), command{words: []string{"sh"}}, text,
				failed),
		} {
			if strings.Contains(reasons.Text(err), secrets.Planted) {
				t.Errorf("%s: %s", name, reasons.Text(err))
			}
		}

		if err := (right{}).wrap("read pods", refusal); !apierrors.IsForbidden(err) {
			t.Errorf("%v is no refusal any more", err)
		}
	}
}

// TestIsLauncherOf: a pod says whose it is by label or annotation, and where an archive has
// neither, by the name that virt-controller gives it and the API server ends.
func TestIsLauncherOf(t *testing.T) {
	vm := Named(types.NamespacedName{Namespace: "ml", Name: "vm"})
	vm.UID = "7"
	for name, test := range map[string]struct {
		pod  metav1.ObjectMeta
		want bool
	}{
		"created by it": {
			metav1.ObjectMeta{Namespace: "ml", Labels: map[string]string{v1.CreatedByLabel: "7"}},
			true,
		},
		"created by one of its name before": {
			metav1.ObjectMeta{Namespace: "ml", Labels: map[string]string{v1.CreatedByLabel: "6"}},
			false,
		},
		"its annotation": {
			metav1.ObjectMeta{
				Namespace: "ml", Annotations: map[string]string{"kubevirt.io/domain": "vm"},
			}, true,
		},
		"its name": {
			metav1.ObjectMeta{Namespace: "ml", Name: "virt-launcher-vm-abcde"}, true,
		},
		"of VM vm-two": {
			metav1.ObjectMeta{Namespace: "ml", Name: "virt-launcher-vm-two-abcde"}, false,
		},
		"of another namespace": {
			metav1.ObjectMeta{Namespace: "x", Name: "virt-launcher-vm-abcde"}, false,
		},
	} {
		if got := IsLauncherOf(&corev1.Pod{ObjectMeta: test.pod}, vm); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestContainers: libvirt is asked in a compute that runs, and the hook where a container that may
// be it runs, also as an init container that restarts.
func TestContainers(t *testing.T) {
	status := func(name string, isRunning bool) corev1.ContainerStatus {
		s := corev1.ContainerStatus{Name: name}
		if isRunning {
			s.State.Running = &corev1.ContainerStateRunning{}
		}
		return s
	}

	pod := corev1.Pod{Status: corev1.PodStatus{
		ContainerStatuses: []corev1.ContainerStatus{
			status("compute", true), status("hook-sidecar-0", false),
			status("hook-sidecar-1", true),
		},
		InitContainerStatuses: []corev1.ContainerStatus{status("hook-sidecar", true)},
	}}

	if !HasLibvirt(&pod) {
		t.Error("a running compute has no libvirt")
	}

	expect.Same(t, []string{"hook-sidecar-1", "hook-sidecar"}, sidecars(&pod),
		"sidecars (-want +got)")

	pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[1:]
	if HasLibvirt(&pod) {
		t.Error("a pod without compute has libvirt")
	}
}

// TestParseInstance: a VMI that cannot be read keeps its name and may have devices, so that a list
// of VMs shows it.
func TestParseInstance(t *testing.T) {
	const head = `{"metadata": {"name": "vm", "namespace": "ml"}, "status": {"nodeName": "n", ` +
		`"phase": "Running"}, "spec": `
	for name, test := range map[string]struct {
		data                 string
		mayHaveDevices, isOK bool
	}{
		"no device": {head + `{"domain": {"devices": {}}}}`, false, true},
		"a GPU": {
			head + `{"domain": {"devices": {"gpus": [{"name": "g", "deviceName": "n/a"}]}}}}`,
			true, true,
		},
		"an SR-IOV network": {
			head + `{"domain": {"devices": {"interfaces": [{"name": "i", "sriov": {}}]}}}}`, true,
			true,
		},
		"another type": {head + `{"domain": {"devices": {"gpus": 7}}}}`, true, false},
	} {
		in := ParseInstance([]byte(test.data))
		if in.MayHaveDevices != test.mayHaveDevices || (in.Err == nil) != test.isOK ||
			in.NamespacedName.String() != "ml/vm" || in.Node != "n" {
			t.Errorf("%s: %s on %q, may have devices %v, error %v", name, in.NamespacedName,
				in.Node,
				in.MayHaveDevices, in.Err)
		}
	}
}

// TestURI: virt-launcher's libvirt is the session's, unless the VM runs as root.
func TestURI(t *testing.T) {
	in := Named(types.NamespacedName{Namespace: "ml", Name: "vm"})
	const session = "qemu+unix:///session?socket=/var/run/libvirt/virtqemud-sock"
	if got := in.uri(); got != session {
		t.Errorf("uri %s, want %s", got, session)
	}

	in.IsRoot = true
	if got := in.uri(); got != "qemu:///system" {
		t.Errorf("uri of root %s", got)
	}
}
