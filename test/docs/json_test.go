package docs

import (
	"bytes"
	"encoding"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/test/program"
)

const (
	demoDomain = "testdata/samples/02-8gpu-8nic-gate-off.xml"
	demoVMI    = "testdata/samples/02-8gpu-8nic-gate-off.vmi.json"
	demoHost   = "testdata/hosts/x86-2n8g-hgx-h100.txtar"
)

// example returns the JSON of docs/json.md.
func example(t *testing.T) []byte {
	t.Helper()
	match := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(read(t, "docs/json.md"))
	if match == nil {
		t.Fatal("docs/json.md has no json block")
	}
	return []byte(match[1])
}

// decode returns JSON as Go's generic values.
func decode(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestExampleHasEveryKey compares the keys of the example, by path, with those
// of the report's types.
func TestExampleHasEveryKey(t *testing.T) {
	if d := cmp.Diff(typeKeys("", reflect.TypeFor[report.Report]()), valueKeys("", decode(t, example(t)))); d != "" {
		t.Errorf("keys of the report and of the example in docs/json.md differ (-report +example):\n%s", d)
	}
}

// typeKeys returns the paths of the JSON keys of a type. Elements of a list are
// "[]", values of a map "*"; a type that marshals itself as text has none.
func typeKeys(path string, t reflect.Type) []string {
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeKeys(path, t.Elem())
	case reflect.Slice:
		return typeKeys(path+"[]", t.Elem())
	case reflect.Map:
		return typeKeys(path+".*", t.Elem())
	case reflect.Struct:
		var keys []string
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && name == "" {
				keys = append(keys, typeKeys(path, f.Type)...)
				continue
			}
			if !f.IsExported() || name == "-" {
				continue
			}
			keys = append(keys, path+"."+name)
			keys = append(keys, typeKeys(path+"."+name, f.Type)...)
		}
		return set(keys)
	}
	return nil
}

// valueKeys returns the paths of the keys of a JSON value, in the same form.
func valueKeys(path string, v any) []string {
	var keys []string
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			keys = append(keys, valueKeys(path+"[]", element)...)
		}
	case map[string]any:
		for name, value := range v {
			key := path + "." + name
			if path == ".policy" {
				key = path + ".*"
			} else {
				keys = append(keys, key)
			}
			keys = append(keys, valueKeys(key, value)...)
		}
	}
	return set(keys)
}

// TestExampleIsReal makes the report of the command in docs/json.md and abridges
// it as the command does, to two elements per list.
func TestExampleIsReal(t *testing.T) {
	host, err := host.ParseSnapshot([]byte(read(t, demoHost)))
	if err != nil {
		t.Fatal(err)
	}
	m := plan.Planner{Sysfs: host, Source: policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: "mirror", policy.KeyPortSpeed: "host"}}}
	result := m.Mutate(plan.Request{Domain: []byte(read(t, demoDomain)), VMI: []byte(read(t, demoVMI))})
	r := report.New(result.Plan, result.Changed(), result.Err)
	r.Devices, r.Controllers, r.Paths.Devices = r.Devices[:2], r.Controllers[:2], r.Paths.Devices[:2]
	r.Budgets.BusNumbers.Expanders = r.Budgets.BusNumbers.Expanders[:2]
	got, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := decode(t, got).(map[string]any)
	paths := want["paths"].(map[string]any)
	for _, side := range []string{"host", "guest"} {
		rows := paths[side].([]any)[:2]
		for i := range rows {
			rows[i] = rows[i].([]any)[:2]
		}
		paths[side] = rows
	}
	if d := cmp.Diff(any(want), decode(t, example(t))); d != "" {
		t.Errorf("the example in docs/json.md is not what explain prints (-explain +example):\n%s", d)
	}
}

// TestEveryFieldIsExplained looks for each key in the text around the example.
func TestEveryFieldIsExplained(t *testing.T) {
	page := read(t, "docs/json.md")
	_, text, _ := strings.Cut(page, "## The fields")
	for _, path := range typeKeys("", reflect.TypeFor[report.Report]()) {
		name := path[strings.LastIndex(path, ".")+1:]
		if !regexp.MustCompile("`([a-zA-Z.]+\\.)?" + name + "`").MatchString(text) {
			t.Errorf("docs/json.md does not explain %s", path)
		}
	}
}

// TestLogFields compares what the program logs for a call with the table of
// docs/json.md: the fields of each message, except those that every line has.
func TestLogFields(t *testing.T) {
	documented := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(domain planned|domain left unchanged|device|warning)` \\|[^|]*\\| (.*) \\|$").
		FindAllStringSubmatch(read(t, "docs/json.md"), -1) {
		// Text in brackets explains a field and is not one itself.
		plain := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(row[2], "")
		var names []string
		for _, name := range regexp.MustCompile("`([a-zA-Z0-9]+)`").FindAllStringSubmatch(plain, -1) {
			names = append(names, name[1])
		}
		documented[row[1]] = names
	}
	// "the same, and …"
	documented["domain left unchanged"] = append(documented["domain left unchanged"], documented["domain planned"]...)
	for message, names := range documented {
		documented[message] = set(names)
	}
	if d := cmp.Diff(documented, logged(t)); d != "" {
		t.Errorf("fields of the log and of docs/json.md differ (-docs +log):\n%s", d)
	}
}

// logged returns the fields of each message that the program logs for a domain that
// it places, one that it cannot parse, and one that it refuses.
func logged(t *testing.T) map[string][]string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "hook-sidecar")
	if err := program.Build(binary, root); err != nil {
		t.Fatal(err)
	}
	fields := map[string][]string{}
	for _, call := range []struct {
		domain, sysfs, strict string
		refused               bool
	}{
		{read(t, demoDomain), filepath.Join(root, demoHost), "false", false},
		{"<domain", filepath.Join(root, demoHost), "false", false},
		{read(t, demoDomain), t.TempDir(), "true", true},
	} {
		cmd := exec.Command(binary, "onDefineDomain", "--vmi", read(t, demoVMI), "--domain", call.domain,
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
			entry := decode(t, []byte(line)).(map[string]any)
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
