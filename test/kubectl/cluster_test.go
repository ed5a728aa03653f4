package kubectl

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// The users of the cluster and their tokens: admin may do everything, viewer what
// manifests/kubectl gives in namespace default, and the others less.
const users = `admin-token,admin,1,"system:masters"
viewer-token,viewer,2
nobody-token,nobody,3
vmis-token,vmis,4
pods-token,pods,5
fit-token,fit,6
collector-token,collector,7
`

// apiServer is kube-apiserver with its store.
type apiServer struct {
	dir, url string
	client   dynamic.Interface
}

// startAPIServer begins to start etcd and kube-apiserver.
func startAPIServer(t *testing.T) apiServer {
	t.Helper()
	binary := strings.TrimSpace(string(command(t, "go", "tool", "-n", "kube-apiserver")))
	dir := t.TempDir()
	ports := freePorts(t, 3)
	store := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	daemon(t, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", store,
		"--advertise-client-urls", store,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
		"default="+peer, "--unsafe-no-fsync")

	key := filepath.Join(dir, "service-accounts")
	command(t, "openssl", "genrsa", "-out", key, "2048")
	tokens := filepath.Join(dir, "tokens")
	write(t, tokens, users)
	daemon(t, binary, "--etcd-servers", store, "--bind-address", "127.0.0.1", "--secure-port",
		strconv.Itoa(ports[2]), "--cert-dir", dir,
		"--service-cluster-ip-range", "10.0.0.0/24", "--service-account-issuer", "https://test",
		"--service-account-key-file", key,
		"--service-account-signing-key-file", key, "--authorization-mode", "RBAC",
		"--token-auth-file", tokens,
		"--runtime-config", "admissionregistration.k8s.io/v1beta1=true", // overlays/kubernetes-1.34
		"--disable-admission-plugins", "ServiceAccount", "--kubelet-preferred-address-types",
		"InternalIP")

	s := apiServer{dir: dir, url: fmt.Sprintf("https://127.0.0.1:%d", ports[2])}
	config := &rest.Config{
		Host:            s.url,
		BearerToken:     "admin-token",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS:             1000,
		Burst:           1000,
	}

	var err error
	if s.client, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}

	return s
}

// wait waits until the API server answers.
func (s apiServer) wait(t *testing.T) {
	t.Helper()
	until(t, "kube-apiserver", func() error {
		_, err := s.client.Resource(schema.GroupVersionResource{
			Version: "v1", Resource: "namespaces",
		}).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// daemon runs a program until the end of the test.
func daemon(t *testing.T, words ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if data, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(words[0]), data[max(0, len(data)-500):])
		}

		log.Close()
	})
}

// freePorts returns ports that nobody listens on.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}

		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}

	return ports
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// kubeconfig returns a file with a user's token for the cluster.
func (s apiServer) kubeconfig(t *testing.T, user string) string {
	t.Helper()
	file := filepath.Join(s.dir, user+".kubeconfig")
	write(t, file, fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: user, user: {token: %s-token}}]
contexts: [{name: here, context: {cluster: test, user: user, namespace: default}}]
`, s.url, user))

	return file
}

// create stores an object, with the status that it has.
func (s apiServer) create(
	t *testing.T, resource schema.GroupVersionResource, object map[string]any,
) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: object}
	client := dynamic.ResourceInterface(s.client.Resource(resource))
	if o.GetNamespace() != "" {
		client = s.client.Resource(resource).Namespace(o.GetNamespace())
	}

	stored, err := client.Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s %s: %v", o.GetKind(), o.GetName(), err)
	}

	status, has := object["status"]
	if !has || resource.Resource == "virtualmachineinstances" { // which has no status subresource
		return stored
	}

	stored.Object["status"] = status
	if stored, err = client.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("update status of %s: %v", o.GetName(), err)
	}

	return stored
}

// storedVMI returns the VMI of dgx.
func (s apiServer) storedVMI(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	client := s.client.Resource(resource("kubevirt.io", "v1",
		"virtualmachineinstances")).Namespace("default")
	stored, err := client.Get(t.Context(), "dgx", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	return stored
}

func fromYAML(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}

	return object
}

func resource(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

// shortNames are those of KubeVirt's definitions (pkg/virt-operator/resource/generate/components/crds.go).
var shortNames = map[string][]any{
	"VirtualMachine": {"vm", "vms"}, "VirtualMachineInstance": {"vmi", "vmis"}, "KubeVirt": {"kv", "kvs"},
	"VirtualMachineInstanceMigration": {"vmim", "vmims"},
}

// createDefinitions stores KubeVirt's definitions of VMs, VMIs, migrations and itself, with the schemas
// that its operator installs, and waits until they are served.
func (s apiServer) createDefinitions(t *testing.T) {
	t.Helper()
	schemas := kubeVirtSchemas(t)
	for kind, plural := range map[string]string{
		"VirtualMachine":         "virtualmachines",
		"VirtualMachineInstance": "virtualmachineinstances",
		"KubeVirt":               "kubevirts",

		"VirtualMachineInstanceMigration": "virtualmachineinstancemigrations",
	} {
		subresources := map[string]any{}
		if kind != "VirtualMachineInstance" {
			subresources["status"] = map[string]any{}
		}

		s.create(t, resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
			map[string]any{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
				"metadata": map[string]any{"name": plural + ".kubevirt.io"},
				"spec": map[string]any{
					"group": "kubevirt.io", "scope": "Namespaced",
					"names": map[string]any{
						"plural": plural, "kind": kind, "shortNames": shortNames[kind],
					},
					"versions": []any{
						map[string]any{
							"name":         "v1",
							"served":       true,
							"storage":      true,
							"subresources": subresources,
							"schema":       schemas[strings.ToLower(kind)],
						},
					},
				},
			})

		until(t, plural, func() error {
			_, err := s.client.Resource(resource("kubevirt.io", "v1", plural)).List(t.Context(),
				metav1.ListOptions{})
			return err
		})
	}
}

// kubeVirtSchemas reads CRDsValidation of KubeVirt's own package components, which the
// module proxy cannot build: it lacks a module that another part of it imports.
func kubeVirtSchemas(t *testing.T) map[string]map[string]any {
	t.Helper()
	module := strings.TrimSpace(string(command(t, "go", "-C", "../manifests", "list", "-m", "-f",
		"{{.Dir}}", "kubevirt.io/kubevirt")))
	file, err := parser.ParseFile(token.NewFileSet(),
		filepath.Join(module,
			"pkg/virt-operator/resource/generate/components/validations_generated.go"), nil, 0)

	if err != nil {
		t.Fatal(err)
	}

	schemas := map[string]map[string]any{}
	ast.Inspect(file, func(n ast.Node) bool {
		pair, isPair := n.(*ast.KeyValueExpr)
		if !isPair {
			return true
		}

		name, err := strconv.Unquote(pair.Key.(*ast.BasicLit).Value)
		if err != nil ||
			!slices.Contains([]string{
				"virtualmachine", "virtualmachineinstance", "kubevirt", "plugin",
				"virtualmachineinstancemigration",
			}, name) {
			return false
		}

		text, err := strconv.Unquote(pair.Value.(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}

		schemas[name] = fromYAML(t, []byte(text))
		return false
	})

	return schemas
}

// createRights stores manifests/kubectl for viewer, and of it less for the others.
func (s apiServer) createRights(t *testing.T) {
	t.Helper()
	manifest, err := os.ReadFile("../../manifests/kubectl/clusterrole.yaml")
	if err != nil {
		t.Fatal(err)
	}

	role := fromYAML(t, manifest)
	s.create(t, resource("rbac.authorization.k8s.io", "v1", "clusterroles"), role)
	s.bind(t, "viewer", "hostdev-viewer")

	for user, resources := range map[string]string{
		"vmis": "virtualmachineinstances", "pods": "virtualmachineinstances pods",
	} {
		var kept []any
		for _, rule := range role["rules"].([]any) {
			name := rule.(map[string]any)["resources"].([]any)[0].(string)
			if strings.Contains(" "+resources+" ", " "+name+" ") {
				kept = append(kept, rule)
			}
		}

		s.create(t, resource("rbac.authorization.k8s.io", "v1", "clusterroles"), map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
			"metadata": map[string]any{"name": user}, "rules": kept,
		})

		s.bind(t, user, user)
	}
}

// bind gives a user a ClusterRole in namespace default.
func (s apiServer) bind(t *testing.T, user, role string) {
	t.Helper()
	s.create(t, resource("rbac.authorization.k8s.io", "v1", "rolebindings"), map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"metadata": map[string]any{"name": user, "namespace": "default"},
		"roleRef": map[string]any{
			"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
		},
		"subjects": []any{
			map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user},
		},
	})
}

// vmi returns the VMI of the sample, which requests no hook, running on the node, with this
// status.
func vmi(t *testing.T, name string, changed map[string]any) map[string]any {
	t.Helper()
	data, err := os.ReadFile("../../testdata/samples/02-8gpu-8nic-gate-off.vmi.json")
	if err != nil {
		t.Fatal(err)
	}

	object := fromYAML(t, data)
	metadata, status := object["metadata"].(map[string]any), object["status"].(map[string]any)
	metadata["name"] = name
	delete(metadata, "uid")
	delete(metadata["annotations"].(map[string]any), "hooks.kubevirt.io/hookSidecars")
	metadata["annotations"].(map[string]any)["example.com/greeting"] = planted
	status["phase"], status["nodeName"], status["runtimeUser"] = "Running", node, 107
	maps.Copy(status, changed)
	return object
}

// pod returns the launcher's pod of a VMI, as virt-controller makes it and the kubelet reports it.
func pod(vmi *unstructured.Unstructured, containers ...string) map[string]any {
	var specs, statuses []any
	for _, c := range append([]string{"compute"}, containers...) {
		specs = append(specs, map[string]any{
			"name": c, "image": "image",
			"env": []any{map[string]any{"name": "A", "value": planted}},
		})
		statuses = append(statuses, map[string]any{
			"name": c, "image": "image", "imageID": "image", "ready": true, "restartCount": 0,
			"state": map[string]any{"running": map[string]any{"startedAt": nil}},
		})
	}

	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "virt-launcher-" + vmi.GetName() + "-x7k2p",
			"namespace": vmi.GetNamespace(), "labels": map[string]any{
				"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": string(vmi.GetUID()),
				"vm.kubevirt.io/name": vmi.GetName(),
			}},
		"spec":   map[string]any{"nodeName": node, "containers": specs},
		"status": map[string]any{"phase": "Running", "containerStatuses": statuses},
	}
}
