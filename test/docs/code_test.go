package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pages"
)

// others are flags of other programs that pages name alone.
var others = []string{"--validate", "--help"}

// flagWord is a flag in a span.
var flagWord = regexp.MustCompile(`(?:^| )(--[a-z][a-z-]+)`)

// TestFlags: a flag that a page names alone, or after the name of a command, is one of the
// programs'. The programs parse whole commands: TestPages of each.
func TestFlags(t *testing.T) {
	references := []string{read(t, "docs/commands.md"), read(t, "docs/kubectl-hostdev.md")}

	for _, code := range pages.Read(t, root) {
		command, _, _ := strings.Cut(code.Text, " ")
		helps := references
		switch {
		case code.IsBlock || command == "hook-sidecar":
			continue
		case !strings.HasPrefix(command, "--"):
			helps = sections(references, command)
		}

		for _, flag := range flagWord.FindAllStringSubmatch(code.Text, -1) {
			isKnown := func(help string) bool { return strings.Contains(help, " "+flag[1]) }
			if len(helps) > 0 && !slices.Contains(others, flag[1]) &&
				!slices.ContainsFunc(helps, isKnown) {

				t.Errorf("%s: `%s`: no program has %s", code.Where, code.Text, flag[1])
			}
		}
	}
}

// sections returns what the references have about a command.
func sections(references []string, command string) []string {
	var found []string
	for _, page := range references {
		if _, rest, ok := strings.Cut(page, "\n## "+command+"\n"); ok {
			section, _, _ := strings.Cut(rest, "\n## ")
			found = append(found, section)
		}
	}

	return found
}

// TestMake: what pages make has a target, with variables of the Makefile, and .ci/run has the
// steps that they name.
func TestMake(t *testing.T) {
	makefile, steps := read(t, "Makefile"), read(t, ".ci/run")
	for _, command := range pages.Commands(t, pages.Read(t, root), "make", ".ci/run") {
		for _, word := range command.Words[1:] {
			name, _, isVariable := strings.Cut(word, "=")
			want := "\n" + name + ":"
			if isVariable {
				want = "\n" + name + " ?="
			}

			switch command.Words[0] {
			case "make":
				if !strings.Contains(makefile, want) {
					t.Errorf("%s: the Makefile has no %q", command.Where, strings.TrimSpace(want))
				}
			case ".ci/run":
				if !strings.Contains(steps, "\n"+word+"() ") {
					t.Errorf("%s: .ci/run has no step %s", command.Where, word)
				}
			}
		}
	}
}

// TestGoTest: the packages, tests and benchmarks that pages run exist.
func TestGoTest(t *testing.T) {
	checked := 0
	for _, command := range pages.Commands(t, pages.Read(t, root), "go test") {
		if command.Words[0] != "go" || command.Words[1] != "test" {
			continue
		}

		checked++
		var found, names []string
		for i, word := range command.Words[2:] {
			switch command.Words[i+1] {
			case "-run", "-bench":
				first, _, _ := strings.Cut(word, "/")
				names = append(names, first)
			default:
				if strings.HasPrefix(word, "./") {
					found = append(found, tests(t, strings.TrimSuffix(word, "/..."))...)
				}
			}
		}

		for _, name := range names {
			pattern := regexp.MustCompile(name)
			if name != "^$" && !slices.ContainsFunc(found, pattern.MatchString) {
				t.Errorf("%s: no test matches %s", command.Where, name)
			}
		}
	}

	if checked < 10 {
		t.Errorf("%d commands run tests, want at least 10", checked)
	}
}

// tests returns the names of a package's tests and benchmarks.
func tests(t *testing.T, directory string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, directory)); err != nil {
		t.Error(err)
	}

	files, err := filepath.Glob(filepath.Join(root, directory, "*_test.go"))
	expect.NoError(t, err)
	var names []string
	for _, file := range files {
		for _, found := range testFunction.FindAllSubmatch(expect.File(t, file), -1) {
			names = append(names, string(found[1]))
		}
	}

	return names
}

// The environment variables of NCCL, of Fabric Manager, of CUDA and of UCX.
var othersVariables = []string{"NCCL_", "FABRIC_", "FM_", "CUDA_", "UCX_"}

var (
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)

	filePath = regexp.MustCompile(
		`^(\.ci|\.github|cmd|docs|manifests|pkg|release|test|testdata|tools)/[\w./-]+$`)
	testName     = regexp.MustCompile(`^Test[A-Z]\w+$`)
	variableName = regexp.MustCompile(`^([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(=.*)?$`)
)

// TestNames: files, tests and environment variables that pages name exist in the project.
func TestNames(t *testing.T) {
	source := allSource(t)
	for _, code := range pages.Read(t, root) {
		switch {
		case code.IsBlock:

		case filePath.MatchString(code.Text):
			name := strings.ReplaceAll(code.Text, "NAME.txtar", "")
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: %v", code.Where, err)
			}

		case testName.MatchString(code.Text) && !strings.Contains(source, "func "+code.Text+"("):
			t.Errorf("%s: there is no test %s", code.Where, code.Text)

		case variableName.MatchString(code.Text):
			name := variableName.FindStringSubmatch(code.Text)[1]
			isOthers := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
			if !strings.Contains(source, name) && !slices.ContainsFunc(othersVariables, isOthers) {
				t.Errorf("%s: nothing in the project reads or writes %s", code.Where, name)
			}
		}
	}
}

// allSource returns the text of the project's programs, tests and scripts.
func allSource(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, directory := range []string{"cmd", "pkg", "test", "release", ".ci"} {
		err := filepath.WalkDir(filepath.Join(root, directory),
			func(name string, entry os.DirEntry, err error) error {
				isText := filepath.Ext(name) == ".go" || filepath.Ext(name) == "" ||
					filepath.Ext(name) == ".txtar"
				if err == nil && isText && entry.Type().IsRegular() {
					all.Write(expect.File(t, name))
				}

				return err
			})
		expect.NoError(t, err)
	}

	all.WriteString(read(t, "Makefile"))
	return all.String()
}

// setting is a policy key with a value, as a flag, an annotation or in prose.
var setting = regexp.MustCompile(
	`^(?:--|hostdev\.vm\.kubevirt\.io/)?([a-z][a-z-]*)(?:=|: )"?([^ "]+)"?$`)

// TestSettings: policy keys that pages set have values that the policy takes, and annotations of
// the hook are keys.
func TestSettings(t *testing.T) {
	checked := 0
	for _, code := range pages.Read(t, root) {
		if name, ok := strings.CutPrefix(code.Text, "hostdev.vm.kubevirt.io/"); ok {
			key := regexp.MustCompile(`^[a-z-]+`).FindString(name)
			if !slices.Contains(policy.Keys(), policy.Key(key)) && key != "" {
				t.Errorf("%s: `%s` is not a key", code.Where, code.Text)
			}
		}

		found := setting.FindStringSubmatch(code.Text)
		if found == nil || !slices.Contains(policy.Keys(), policy.Key(found[1])) {
			continue
		}

		checked++
		source := policy.Source{Flags: map[policy.Key]string{policy.Key(found[1]): found[2]}}
		if _, _, err := policy.Resolve(source); err != nil {
			t.Errorf("%s: %v", code.Where, err)
		}
	}

	if checked < 10 {
		t.Errorf("%d settings are in the pages, want at least 10", checked)
	}
}

// TestYAML: blocks of YAML are objects of Kubernetes or KubeVirt, the template of a VM, or
// annotations, without unknown fields.
func TestYAML(t *testing.T) {
	for _, code := range pages.Read(t, root) {
		if code.Language != "yaml" {
			continue
		}

		var into any = &v1.VirtualMachineInstanceTemplateSpec{}
		switch {
		case strings.Contains(code.Text, "kind: ResourceClaimTemplate"):
			into = &resourcev1.ResourceClaimTemplate{}
		case strings.Contains(code.Text, "kind: KubeVirt\n"):
			into = &v1.KubeVirt{}
		case strings.HasPrefix(code.Text, "hooks.kubevirt.io/"):
			into = &map[string]string{}
		}

		if err := yaml.UnmarshalStrict([]byte(code.Text), into); err != nil {
			t.Errorf("%s: %v", code.Where, fmt.Errorf("%T: %w", into, err))
		}
	}
}

// TestPackages: the table of docs/architecture.md has each package under pkg, and no other.
func TestPackages(t *testing.T) {
	_, table, found := strings.Cut(read(t, "docs/architecture.md"), "\n|---|---|\n")
	if !found {
		t.Fatal("docs/architecture.md has no table of packages")
	}

	var listed, want []string
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			listed = append(listed, name[1])
		}
	}

	for _, file := range sources(t, "pkg") {
		directory, err := filepath.Rel(root, filepath.Dir(file))
		expect.NoError(t, err)
		want = append(want, directory)
	}

	expect.Same(t, set(want), set(listed), "packages and the table (-packages +table)")
}

// TestEveryKeyIsLocked: the sidecar that KubeVirt 1.9.0 needs beside a plugin takes no key from the VM's
// owner.
func TestEveryKeyIsLocked(t *testing.T) {
	found := regexp.MustCompile(`"--layout", "keep", "--lock", "([^"]*)"`).FindStringSubmatch(
		read(t, "docs/install.md"))
	if found == nil {
		t.Fatal("docs/install.md has no sidecar that keeps the layout")
	}

	var keys []string
	for _, s := range policy.Settings() {
		keys = append(keys, string(s.Key))
	}

	slices.Sort(keys)
	locked := strings.Split(found[1], ",")
	slices.Sort(locked)
	expect.Same(t, keys, locked, "locked keys (-want +got)")
}
