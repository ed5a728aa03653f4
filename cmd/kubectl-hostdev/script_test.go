package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/rogpeppe/go-internal/testscript"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"hook-sidecar/test/apiserver"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/script"
)

// update rewrites the files in the scripts that cmp compares with.
var update = flag.Bool("update", false, "rewrite expected files")

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // apimachinery's server logs each client that leaves
	testscript.Main(m, map[string]func(){"kubectl-hostdev": main})
}

// TestScript runs the program in a process of its own against package apiserver. Each
// script begins with what it tests.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   filepath.Join("testdata", "script"),
		Setup: copyInputs,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cluster": serveCluster, "exits": script.Exits,
		},
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(script.Within),
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
	})
}

// TestClusterRole: manifests/kubectl has each rule that the scripts see in a hint.
func TestClusterRole(t *testing.T) {
	var granted []string
	for _, text := range strings.Split(string(expect.File(t,
		"../../manifests/kubectl/clusterrole.yaml")), "\n---\n") {
		var role rbacv1.ClusterRole
		expect.NoError(t, yaml.UnmarshalStrict([]byte(text), &role))
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted = append(granted,
						fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: [%q]}`,
							rule.APIGroups[0], resource, verb))
				}
			}
		}
	}

	slices.Sort(granted)
	granted = slices.Compact(granted) // of several roles
	scripts, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	expect.NoError(t, err)
	named := map[string]bool{}
	for _, script := range scripts {
		text := strings.ReplaceAll(string(expect.File(t, script)), `\`, "")
		for _, match := range ruleInHint.FindAllStringSubmatch(text, -1) {
			for resource := range strings.SplitSeq(match[2], ", ") {
				named[fmt.Sprintf("{apiGroups: [%s], resources: [%s], verbs: [%s]}", match[1],
					resource, match[3])] = true
			}
		}
	}

	for rule := range named {
		if !slices.Contains(granted, rule) {
			t.Errorf("no ClusterRole has the rule %s", rule)
		}
	}

	if len(named) != len(granted)-1 { // none needs get of pods/exec
		t.Errorf("the scripts name %d rules, and the ClusterRoles have %d", len(named),
			len(granted))
	}
}

// ruleInHint matches a rule that a message names: its group, its resources and its verb.
var ruleInHint = regexp.MustCompile(
	`by the rules? {apiGroups: \[(.*?)\], resources: \[(.*?)\], verbs: \[(.*?)\]}`)

// inputs are files for every script: clusters with a VM that has no hook, one that has it
// and one without devices, and what their documents take from testdata.
var inputs = map[string]string{
	"dgx.yaml":    "cmd/kubectl-hostdev/testdata/dgx.yaml",
	"hooked.yaml": "cmd/kubectl-hostdev/testdata/hooked.yaml",
	"plain.yaml":  "cmd/kubectl-hostdev/testdata/plain.yaml",
	"single.yaml": "cmd/kubectl-hostdev/testdata/single.yaml",
	"dgx.json":    "testdata/samples/02-8gpu-8nic-gate-off.vmi.json",
	"dgx.xml":     "testdata/samples/02-8gpu-8nic-gate-off.libvirt9-inactive.xml",
	"single.json": "testdata/samples/01-single-gpu.vmi.json",
	"single.xml":  "testdata/samples/01-single-gpu.libvirt9-inactive.xml",
	"hooked.json": "testdata/launcher/hgx/input1.vmi.json",
	"hooked.xml":  "testdata/launcher/hgx/defined.xml",
	"plain.json":  "testdata/launcher/plain/input1.vmi.json",
	"plain.xml":   "testdata/launcher/plain/defined.xml",
	"host.txtar":  "testdata/hosts/x86-2n8g-hgx-h100.txtar",
	"slices.yaml": "testdata/slices/x86-2n8g-hgx-h100.yaml",
}

func copyInputs(env *testscript.Env) error {
	for name, from := range inputs {
		data, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(from)))
		if err != nil {
			return err
		}

		if err := os.WriteFile(filepath.Join(env.WorkDir, name), data, 0o600); err != nil {
			return err
		}
	}

	return nil
}

// serveCluster implements the command
//
//	cluster FILE...
//
// which serves the files' documents until the end of the script, and names the server in
// $KUBECONFIG.
func serveCluster(ts *testscript.TestScript, neg bool, files []string) {
	if neg {
		ts.Fatalf("usage: cluster FILE...")
	}

	served, err := apiserver.Read(ts.MkAbs("."), files...)
	ts.Check(err)
	server := served.Start()
	ts.Defer(func() {
		server.Close()
		served.Made.Range(func(name, _ any) bool {
			if !slices.Contains(files, "nodelete.yaml") {
				ts.Fatalf("pod %s is not deleted", name)
			}
			return true
		})
	})

	kubeconfig := ts.MkAbs("kubeconfig")
	ts.Check(os.WriteFile(kubeconfig, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: user, user: {token: viewer}}]
contexts: [{name: here, context: {cluster: test, user: user, namespace: default}}]
`, server.URL), 0o600))

	ts.Setenv("KUBECONFIG", kubeconfig)
}
