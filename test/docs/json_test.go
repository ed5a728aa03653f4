package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/program"
)

const (
	demoDomain = "testdata/samples/02-8gpu-8nic-gate-off.xml"
	demoVMI    = "testdata/samples/02-8gpu-8nic-gate-off.vmi.json"
	demoHost   = "testdata/hosts/x86-2n8g-hgx-h100.txtar"
)

// jsonPage returns docs/json.md: the fields with the comments of the Go types, and an example.
func jsonPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(generated + `# JSON

The schema version rises when a field is removed or changes its meaning, not when one is added: ignore fields that you do not know. ` + "`null`" + ` means not known; lists are never ` + "`null`" + `. The JSON Schemas are in docs/schema and in a release. [troubleshooting.md](troubleshooting.md#the-log) has the fields of the log.
`)

	for _, part := range []struct{ title, directory, typeName string }{
		{"`explain -o json`", "pkg/report", "Report"},
		{"`explain --guest FILE -o json`", "pkg/tools/verdict", "GuestComparison"},
		{"`guest -o json`", "pkg/tools/verdict", "Verdict"},
		{"`doctor -o json`", "pkg/tools/doctor", "Report"},
		{"`kubectl hostdev explain -o json`: the table of VMs", "cmd/kubectl-hostdev", "vmTable"},
		{"`kubectl hostdev fit -o json`", "pkg/tools/cluster/fit", "Answer"},
		{"`kubectl hostdev fit --check CLAIM -o json`", "pkg/tools/cluster/fit", "Check"},
		{"`kubectl hostdev why -o json`", "pkg/tools/cluster/why", "Report"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| field | meaning |\n|---|---|\n", part.title)
		types := structs(t, part.directory)
		for _, f := range fields(types, types[part.typeName], "") {
			if f.comment == "" {
				t.Errorf("%s: the field %s of %s has no comment", part.directory, f.path,
					part.typeName)
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", f.path, strings.ReplaceAll(f.comment, "|", `\|`))
		}
	}

	fmt.Fprintf(&b,
		"\n## An example\n\n"+
			"The demo's machine with `--layout mirror --port-speed host`, cut to two elements "+
			"per list:\n\n```json\n%s\n```\n", example(t))
	return b.String()
}

// structs returns the struct types of a package, and of those whose types are in reports,
// by name.
func structs(t *testing.T, directory string) map[string]*ast.StructType {
	t.Helper()
	var files []string
	for _, d := range []string{
		"pkg/reasons", "pkg/findings", "pkg/plan", "pkg/placement", "pkg/placement/bus",
		"pkg/plan/mapping", directory,
	} {
		names, err := filepath.Glob(filepath.Join(root, d, "*.go"))
		expect.NoError(t, err)
		files = append(files, names...)
	}

	found := map[string]*ast.StructType{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		expect.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if fields, ok := spec.Type.(*ast.StructType); ok {
					found[spec.Name.Name] = fields
				}
			}
			return true
		})
	}

	return found
}

// field is a JSON field with the comment of its Go field.
type field struct{ path, comment string }

// fields returns those of a struct and of the structs in it, in their order. Elements of a
// list are "[]", values of a map "*". An embedded type that is a page of its own is left out.
func fields(types map[string]*ast.StructType, parent *ast.StructType, path string) []field {
	var all []field
	for _, f := range parent.Fields.List {
		inner, suffix := element(types, f.Type)
		if len(f.Names) == 0 {
			if inner != nil && inner != types["Report"] {
				all = append(all, fields(types, inner, path)...)
			}
			continue
		}

		if f.Tag == nil {
			continue
		}

		tag, err := strconv.Unquote(f.Tag.Value)
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if err != nil || name == "" || name == "-" {
			continue
		}

		comment := f.Comment
		if comment == nil {
			comment = f.Doc
		}

		all = append(all, field{path + name, strings.Join(strings.Fields(comment.Text()), " ")})
		if inner != nil {
			all = append(all, fields(types, inner, path+name+suffix+".")...)
		}
	}

	return all
}

// element returns the struct that a type is, points to or is a list or map of, and nil for
// other types.
func element(
	types map[string]*ast.StructType, expr ast.Expr,
) (found *ast.StructType, suffix string) {
	switch e := expr.(type) {
	case *ast.StructType:
		return e, ""
	case *ast.Ident:
		return types[e.Name], ""
	case *ast.SelectorExpr:
		return types[e.Sel.Name], ""
	case *ast.StarExpr:
		return element(types, e.X)
	case *ast.ArrayType:
		found, suffix = element(types, e.Elt)
		return found, "[]" + suffix

	case *ast.MapType:
		found, suffix = element(types, e.Value)
		return found, ".*" + suffix
	}

	return nil, ""
}

// example returns a report of the demo's machine, cut to two elements per list.
func example(t *testing.T) []byte {
	t.Helper()
	host, err := host.ParseSnapshot([]byte(read(t, demoHost)))
	expect.NoError(t, err)
	m := plan.Planner{
		Sysfs: host,
		Source: policy.Source{
			Flags: map[policy.Key]string{policy.KeyLayout: "mirror", policy.KeyPortSpeed: "host"},
		},
	}

	result := m.Read(plan.Request{
		Domain: []byte(read(t, demoDomain)), VMI: []byte(read(t, demoVMI)),
	}).Plan()

	r := report.New(result.Plan, result.Changed(), result.Err)
	r.Devices, r.Controllers, r.Paths.Devices = r.Devices[:2], r.Controllers[:2], r.Paths.Devices[:2]
	r.Budgets.BusNumbers.Expanders = r.Budgets.BusNumbers.Expanders[:2]
	data, err := json.MarshalIndent(r, "", "  ")
	expect.NoError(t, err)
	matrix := regexp.MustCompile(`(?s)("(?:host|guest)": )(\[\n      \[.*?\n    \])`)
	return matrix.ReplaceAllFunc(data, func(found []byte) []byte {
		parts, rows := matrix.FindSubmatch(found), [][]string{}
		expect.NoError(t, json.Unmarshal(parts[2], &rows))
		return fmt.Appendf(nil, "%s[[%q, %q], [%q, %q]]", parts[1], rows[0][0], rows[0][1],
			rows[1][0], rows[1][1])
	})
}

// TestLogFields compares what the program logs for a call with the table of
// docs/troubleshooting.md: the fields of each message, except those that every line has.
func TestLogFields(t *testing.T) {
	documented := map[string][]string{}
	for _, row := range regexp.MustCompile(
		"(?m)^\\| `(domain planned|domain left unchanged|device|warning)` \\|[^|]*\\| (.*) \\|$").
		FindAllStringSubmatch(read(t, "docs/troubleshooting.md"), -1) {
		// Text in brackets explains a field and is not one itself.
		plain := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(row[2], "")
		var names []string
		for _, name := range regexp.MustCompile("`([a-zA-Z0-9]+)`").FindAllStringSubmatch(plain,
			-1) {
			names = append(names, name[1])
		}

		documented[row[1]] = names
	}

	// "the same, and …"
	documented["domain left unchanged"] = append(documented["domain left unchanged"],
		documented["domain planned"]...)
	for message, names := range documented {
		documented[message] = set(names)
	}

	expect.Same(t, documented, logged(t),
		"fields of the log and of docs/troubleshooting.md differ (-docs +log)")
}

// logged returns the fields of each message that the program logs for a domain that
// it places, one that it cannot parse, and one that it refuses.
func logged(t *testing.T) map[string][]string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "hook-sidecar")
	expect.NoError(t, program.Build(binary, root))
	fields := map[string][]string{}
	for _, call := range []struct {
		domain, sysfs, strict string
		refused               bool
	}{
		{read(t, demoDomain), filepath.Join(root, demoHost), "false", false},
		{"<domain", filepath.Join(root, demoHost), "false", false},
		{read(t, demoDomain), t.TempDir(), "true", true},
	} {
		cmd := exec.Command(binary, "onDefineDomain", "--vmi", read(t, demoVMI), "--domain",
			call.domain,
			"--sysfs", call.sysfs, "--strict="+call.strict)

		var log bytes.Buffer
		cmd.Stderr = &log
		if err := cmd.Run(); (err != nil) != call.refused {
			t.Fatalf("%v\n%s", err, log.String())
		}

		for line := range strings.Lines(log.String()) {
			if strings.HasPrefix(line, "hook-sidecar: ") { // for people
				continue
			}

			var entry map[string]any
			expect.NoError(t, json.Unmarshal([]byte(line), &entry))
			message := entry["msg"].(string)

			for _, common := range []string{"time", "level", "msg", "vmi", "uid"} {
				if _, there := entry[common]; !there {
					t.Errorf("a log line lacks %s: %s", common, line)
				}
				delete(entry, common)
			}

			fields[message] = set(slices.Concat(fields[message], slices.Collect(maps.Keys(entry))))
		}
	}

	return fields
}
