package kubectl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// testOperate follows the six steps of docs/operate.md as they are there, with the plugin and with the
// annotation, and between steps 5 and 6 an upgrade of the hook and back.
func (c *cluster) testOperate(t *testing.T) {
	blocks := sixSteps(t)
	plugin, annotation, steps := blocks[0], blocks[1], blocks[2:]
	for _, name := range []string{"dgx", "second"} {
		c.create(t, resource("kubevirt.io", "v1", "virtualmachines"), map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
			"metadata": map[string]any{
				"name": name, "namespace": "default", "labels": map[string]any{"pool": "training"},
			},
			"spec": map[string]any{
				"runStrategy": "Always",
				"template": map[string]any{
					"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}},
				},
			},
		})
	}

	s := newShell(t, c)
	s.run(t, plugin)
	s.run(t, "VM=dgx")
	t.Run("plugin", func(t *testing.T) {
		s.steps(t, steps)

		// All are back while the labels and their annotations stay.
		s.run(t, `kubectl patch vm "$VM" --type merge -p "$ON"`)
		s.run(t, `kubectl patch vm "$VM" --type merge -p '{"spec": {"template": {"metadata": `+
			`{"annotations": {"hostdev.vm.kubevirt.io/dry-run": "false"}}}}}'`)
		s.restart(t, "hook-sidecar:v1 true")
	})

	s.run(t, `kubectl patch vm "$VM" --type merge -p "$OFF"; kubectl delete -k manifests/plugin`)
	s.run(t, annotation)
	t.Run("annotation", func(t *testing.T) { s.steps(t, steps) })
	s.restart(t, "")
}

// sixSteps returns the commands of the page's section.
func sixSteps(t *testing.T) (blocks []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}

	_, section, _ := strings.Cut(string(page), "\n## Six steps\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, match := range regexp.MustCompile("(?s)\n```sh\n(.*?)```\n").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, match[1])
	}

	if len(blocks) != 8 {
		t.Fatalf("docs/operate.md has %d blocks of commands, want those of two ways and of six steps",
			len(blocks))
	}

	return blocks
}

// shell is an administrator's shell in a checkout, which keeps the page's variables.
type shell struct {
	c   *cluster
	dir string
	env []string
}

func newShell(t *testing.T, c *cluster) *shell {
	t.Helper()
	s := &shell{c: c, dir: t.TempDir()}
	kubectl := strings.TrimSpace(string(command(t, "go", "tool", "-n", "kubectl")))
	for name, target := range map[string]string{
		"bin/kubectl":         kubectl,
		"bin/kubectl-hostdev": filepath.Join(c.programs, "kubectl-hostdev"),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(s.dir, "bin"), 0o755),
			os.Symlink(target, filepath.Join(s.dir, name))); err != nil {
			t.Fatal(err)
		}
	}

	if err := os.CopyFS(filepath.Join(s.dir, "manifests"), os.DirFS("../../manifests")); err != nil {
		t.Fatal(err)
	}

	s.env = []string{
		"PATH=" + filepath.Join(s.dir, "bin") + ":/usr/bin:/bin", "HOME=" + s.dir,
		"KUBECONFIG=" + c.kubeconfig(t, "admin"),
	}

	return s
}

// run runs commands, none of which may print an error, and returns what they print.
func (s *shell) run(t *testing.T, commands string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", "[[ ! -f state ]] || . ./state\n"+commands+`
{ declare -p VM IMAGE HOOK PLUGIN DRY_RUN ON DRY OFF POD; declare -f deploy; } > state 2> unset || true`)
	cmd.Dir, cmd.Env = s.dir, s.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || strings.Contains(strings.ToLower(errs.String()), "error") {
		t.Fatalf("%s\n%v: %s%s", commands, err, &errs, &out)
	}

	return out.String()
}

// steps follows the six steps; s has the way's variables.
func (s *shell) steps(t *testing.T, steps []string) {
	look, dryRun, oneVM, compare, rest, back := steps[0], steps[1], steps[2], steps[3], steps[4],
		steps[5]
	prints := func(commands, want string) {
		t.Helper()
		if out := s.run(t, commands); !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s\nprints\n%s\nwant %s", commands, out, want)
		}
	}

	prints(look, `(?m)^default +dgx .* mirror 8 GPUs direct, 120 pairs `)

	// 2: the log of the new pod says what it would do.
	before, after := atRestart(t, dryRun)
	s.run(t, before)
	s.restart(t, "hook-sidecar:v1 true")
	prints(after, `^{"layout":"mirror","placed":16,"unplaced":0,"dryRun":true}\n$`)

	// 3 and 4
	before, _ = atRestart(t, oneVM)
	s.run(t, before)
	prints("ls *.tar.gz; rm *.tar.gz", `^hostdev-default_dgx\.tar\.gz\n$`)
	s.restart(t, "hook-sidecar:v1 false")
	prints(after, `^{"layout":"mirror","placed":16,"unplaced":0,"dryRun":false}\n$`)
	guest, compare, found := strings.Cut(compare, "\n")
	if !found || !strings.Contains(guest, "--guest") { // testGuest asks a guest's agent
		t.Errorf("%s: want the question to the guest first", guest)
	}

	s.run(t, compare) // the domain is the same: the test's virt-controller restarts the pod only
	prints("wc -l < after.txt", `^16\n$`)

	// 5
	s.run(t, rest)
	if on := s.run(t, `kubectl get vm second -o jsonpath='{.spec.template.metadata}'`); on == "" {
		t.Error("the other VM did not get the hook")
	}

	// Another version of the hook, and back to the first.
	for _, version := range []string{"v2", "v1"} {
		s.run(t, "IMAGE=registry.example.com/hook-sidecar:"+version+`; ON=${ON/hook-sidecar:v?/hook-sidecar:`+
			version+"}")
		s.run(t, `deploy manifests/plugin; kubectl patch vm "$VM" --type merge -p "$ON"`)
		s.restart(t, "hook-sidecar:"+version+" false")
	}

	// 6
	s.run(t, back)
	s.restart(t, "")
}

// atRestart returns the commands before and after the restart.
func atRestart(t *testing.T, commands string) (before, after string) {
	t.Helper()
	before, after, found := strings.Cut(commands, `virtctl restart "$VM"`)
	if !found {
		t.Fatalf("no restart in\n%s", commands)
	}

	_, after, _ = strings.Cut(after, "\n")
	return before, after
}

// restart makes the VM's pod again, as virt-controller does, until its sidecar is the one that is
// wanted: its image, and whether it is a dry run. Policies take some time to apply.
func (s *shell) restart(t *testing.T, want string) {
	t.Helper()
	until(t, "a pod with the sidecar "+want, func() error {
		got, err := s.c.newPod(t, "dgx")
		if err == nil && got != want {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
}

// newPod replaces the pod of a VM by one of its template, and returns its sidecar. The pod is refused
// while of the plugin's policies only the one applies that requires the sidecar.
func (c *cluster) newPod(t *testing.T, vm string) (string, error) {
	t.Helper()
	virtualMachine, err := c.client.Resource(resource("kubevirt.io", "v1", "virtualmachines")).
		Namespace("default").Get(t.Context(), vm, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	stored := c.storedVMI(t)
	object := pod(stored)
	labels, _, _ := unstructured.NestedStringMap(virtualMachine.Object, "spec", "template", "metadata",
		"labels")
	for name, value := range labels {
		object["metadata"].(map[string]any)["labels"].(map[string]any)[name] = value
	}

	spec := object["spec"].(map[string]any)
	spec["volumes"] = []any{map[string]any{
		"name": "kubevirt-plugin-sockets", "emptyDir": map[string]any{},
	}}

	annotations, _, _ := unstructured.NestedStringMap(virtualMachine.Object, "spec", "template",
		"metadata", "annotations")
	spec["containers"] = append(spec["containers"].([]any), sidecars(t, annotations)...)

	pods := c.client.Resource(resource("", "v1", "pods")).Namespace("default")
	name := object["metadata"].(map[string]any)["name"].(string)
	if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
	}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}

	made, err := pods.Create(t.Context(), &unstructured.Unstructured{Object: object},
		metav1.CreateOptions{})
	if err != nil {
		return "", err
	}

	made.Object["status"] = object["status"]
	if made, err = pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	return c.startSidecar(t, made), nil
}

// sidecars returns the containers that virt-controller makes of the annotation.
func sidecars(t *testing.T, annotations map[string]string) (containers []any) {
	t.Helper()
	var list []map[string]any
	if text := annotations["hooks.kubevirt.io/hookSidecars"]; text != "" {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
	}

	for i, sidecar := range list {
		sidecar["name"] = fmt.Sprintf("hook-sidecar-%d", i)
		containers = append(containers, sidecar)
	}

	return containers
}

// startSidecar gives the pod's sidecar the log that the hook writes with its arguments, and returns its
// image's last part and whether it is a dry run; "" without a sidecar.
func (c *cluster) startSidecar(t *testing.T, pod *unstructured.Unstructured) string {
	t.Helper()
	added, _, _ := unstructured.NestedSlice(pod.Object, "spec", "initContainers")
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	for _, container := range slices.Concat(added, containers) {
		fields := container.(map[string]any)
		name := fields["name"].(string)
		if !strings.HasPrefix(name, "hook-sidecar") {
			continue
		}

		args, _, _ := unstructured.NestedStringSlice(fields, "args")
		log := c.logOf(t, args)
		c.kubelet.logs.Store(pod.GetNamespace()+"/"+pod.GetName()+"/"+name, log)
		c.kubelet.add(pod.GetName()+"/"+name, in(c.launcher, "/run"))
		return fmt.Sprintf("%s %t", filepath.Base(fields["image"].(string)),
			strings.Contains(log, `"dryRun":true`))
	}

	return ""
}

// logOf returns what the hook logs of one call, with a sidecar's arguments.
func (c *cluster) logOf(t *testing.T, args []string) string {
	t.Helper()
	args = slices.DeleteFunc(args, func(arg string) bool { // those of a server
		return arg == "serve" || arg == "--version" || arg == "v1alpha3" ||
			strings.HasPrefix(arg, "--socket-dir=") || strings.HasPrefix(arg, "--plugin-socket=")
	})

	domain, err := os.ReadFile("testdata/dgx.xml")
	if err != nil {
		t.Fatal(err)
	}

	vmi, err := c.storedVMI(t).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(filepath.Join(c.programs, "hook-sidecar"), append([]string{
		"onDefineDomain", "--vmi", string(vmi), "--domain", string(domain), "--sysfs", hostFile,
	}, args...)...)
	cmd.Env = []string{}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, &log)
	}

	return log.String()
}
