package manifests

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// TestProtocol: the services that pkg/hooks serves to plugins are those of the KubeVirt module that
// go.mod names, with their methods, messages, fields and numbers. KubeVirt 1.9 has no
// LauncherHookService, so of that service the test proves nothing yet: when 1.10 can be downloaded,
// change the version of kubevirt.io/kubevirt in go.mod and run `make manifests`.
func TestProtocol(t *testing.T) {
	theirs := blocks(t,
		filepath.Join(kubeVirtModule(t), "pkg", "hooks", "plugins", "v1alpha1", "api.proto"))
	ours := blocks(t, filepath.Join("..", "..", "pkg", "hooks", "api", "plugin", "plugin.proto"))
	found := 0
	for service, messages := range map[string][]string{
		"service DomainHookService": {"message MutateDomainRequest",
			"message MutateDomainResponse"},
		"service LauncherHookService": {"message GuestDefinitionRequest",
			"message GuestDefinitionResponse"},
	} {
		if theirs[service] == nil {
			t.Logf("not compared: this KubeVirt has no %s", service)
			continue
		}

		found++
		for rpc := range ours[service] { // 1.10 has more, which this hook does not serve
			if !theirs[service][rpc] {
				t.Errorf("%s of KubeVirt has no %q", service, rpc)
			}
		}

		for _, message := range append(messages, "message SidecarContext") {
			if !maps.Equal(ours[message], theirs[message]) {
				t.Errorf("%s has %v, in KubeVirt %v", message, ours[message], theirs[message])
			}
		}
	}

	if found == 0 {
		t.Error("KubeVirt has neither of the services")
	}
}

// kubeVirtModule returns the directory of the KubeVirt module that go.mod names.
func kubeVirtModule(t *testing.T) string {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"kubevirt.io/kubevirt").Output()
	expect.NoError(t, err)
	return strings.TrimSpace(string(module))
}

// blocks returns the statements of each service and message of a .proto file: its fields and
// methods.
func blocks(t *testing.T, file string) map[string]map[string]bool {
	t.Helper()
	text := regexp.MustCompile(`//[^\n]*|\breserved [^;]*;`).ReplaceAllString(string(expect.File(t,
		file)), "")
	found := map[string]map[string]bool{}
	for _, block := range regexp.MustCompile(
		`((?:service|message) \w+) \{([^}]*)\}`).FindAllStringSubmatch(text, -1) {
		found[block[1]] = map[string]bool{}
		for statement := range strings.SplitSeq(block[2], ";") {
			if words := strings.Fields(statement); len(words) > 0 {
				found[block[1]][strings.Join(words, " ")] = true
			}
		}
	}

	return found
}
