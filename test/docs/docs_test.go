// Package docs checks that the documentation agrees with the code.
package docs

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/keys/cloudinit"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
)

const root = "../.."

// read returns a file of the project.
func read(t *testing.T, name string) string {
	t.Helper()
	return string(expect.File(t, filepath.Join(root, name)))
}

// constants returns the values of a package's string constants of a type, read
// from their declarations, so that a table that lacks one is found.
func constants(t *testing.T, directory, typeName string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, directory, "*.go"))
	expect.NoError(t, err)
	var values []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		expect.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}

			if ident, ok := spec.Type.(*ast.Ident); !ok || ident.Name != typeName {
				return true
			}

			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				text, err := strconv.Unquote(value.Value)
				expect.NoError(t, err)
				values = append(values, text)
			}

			return true
		})
	}

	return set(values)
}

// TestPagesHaveAddresses: where a program names a page or a manifest, it is by reasons.Page, which
// makes an address of it in a release, or in the table of causes; and it exists.
func TestPagesHaveAddresses(t *testing.T) {
	path := regexp.MustCompile(`(docs|manifests)/[\w./-]+(#[\w-]+)?`)
	count := 0
	for _, name := range sources(t, "cmd", "pkg") {
		text := regexp.MustCompile(`(?m)//.*$`).ReplaceAllString(string(expect.File(t, name)), "")
		for _, at := range path.FindAllStringIndex(text, -1) {
			page, anchor, _ := strings.Cut(text[at[0]:at[1]], "#")
			if !strings.HasSuffix(text[:at[0]], `Page("`) {
				t.Errorf("%s has %s, not Page of it", name, page)
			}

			if anchors := anchors(read(t, page)); anchor != "" &&
				!slices.Contains(anchors, anchor) {
				t.Errorf("%s: %s has no heading for #%s", name, page, anchor)
			}
			count++
		}
	}

	if count < 20 {
		t.Errorf("%d addresses are found, want 20 or more", count)
	}
}

// sources returns the Go files of the program in directories of the repository and under them.
func sources(t *testing.T, directories ...string) (files []string) {
	t.Helper()
	for _, directory := range directories {
		expect.NoError(t, filepath.WalkDir(filepath.Join(root, directory),
			func(path string, _ fs.DirEntry, err error) error {
				if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
					files = append(files, path)
				}
				return err
			}))
	}

	return files
}

// set returns the values sorted, without duplicates.
func set[T ~string](values []T) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}

	slices.Sort(texts)
	return slices.Compact(texts)
}

func TestTablesHaveEveryConstant(t *testing.T) {
	var codes []reasons.Code // that have a page, of their own or as reasons
	for _, r := range reasons.Reasons() {
		if code := reasons.Code(r); code.Remedy() != "" {
			codes = append(codes, code)
		}
	}

	for _, code := range codesIn(t, "Warnings") {
		codes = append(codes, code)
		if findings.Remedy(code) == "" {
			t.Errorf("warning %s has no remedy", code)
		}
	}

	found := findings.Codes()
	given := slices.DeleteFunc(slices.Clone(codes), func(c reasons.Code) bool {
		return slices.Contains(found, c)
	})

	expect.Same(t, set(slices.Concat(found, given)), set(codes),
		"codes of findings without a section of the page, and sections without one (-codes +page)")

	for _, test := range []struct {
		directory, typeName string
		table               []string
	}{
		{"pkg/reasons", "Reason", set(reasons.Reasons())},
		{"pkg/reasons", "Code", set(given)},
		{"pkg/policy", "Key", set(policy.Keys())},
	} {
		expect.Same(t, constants(t, test.directory, test.typeName), test.table,
			"%s: constants of type %s and their table differ (-constants +table)", test.directory,
			test.typeName)
	}
}

// TestPolicyTable compares the policy table of README.md, all columns but the
// meaning, with the settings.
func TestPolicyTable(t *testing.T) {
	var want []string
	for _, s := range policy.Settings() {
		preset := s.Default
		if s.WithoutVMI != "" {
			preset += "; " + s.WithoutVMI + " without a VMI"
		}
		want = append(want, "| `"+string(s.Key)+"` | "+s.Allowed()+" | "+preset+" |")
	}

	_, table, found := strings.Cut(read(t, "README.md"),
		"| key | values | default | meaning |\n|---|---|---|---|\n")
	table, _, ends := strings.Cut(table, "\n\n")
	if !found || !ends {
		t.Fatal("README.md has no policy table")
	}

	got := regexp.MustCompile("(?m)^(?:\\|[^|\n]*){3}\\|").FindAllString(table, -1)
	expect.Same(t, want, got,
		"settings and the policy table of README.md differ (-settings +README.md)")
}

// TestLockedTable compares the table of docs/keys.md with the policy's keys and with
// what the manifests lock.
func TestLockedTable(t *testing.T) {
	_, locks, found := strings.Cut(read(t, "manifests/plugin/settings.yaml"), "\n  lock: ")
	if !found {
		t.Fatal("settings.yaml has no lock")
	}

	locked := strings.Split(strings.TrimSpace(locks), ",")
	var want []string
	for _, key := range policy.Keys() {
		who, mark := "owner", " "
		if slices.Contains(locked, string(key)) {
			who, mark = "administrator", " yes "
		}
		want = append(want, "`"+string(key)+"` | "+who+" |"+mark+"|")
	}

	var got []string
	for _, row := range regexp.MustCompile(
		"(?m)^\\| (`[^|]*\\| [^|]* \\|)[^|]*\\|([^|]*\\|)$").FindAllStringSubmatch(
		read(t, "docs/keys.md"), -1) {
		got = append(got, row[1]+row[2])
	}

	expect.Same(t, want, got, "docs/keys.md and the manifests differ (-manifests +keys.md)")
}

// TestScript: docs/keys.md has the script that the hook adds to cloud-init's data.
func TestScript(t *testing.T) {
	if !strings.Contains(read(t, "docs/keys.md"), "```sh\n"+cloudinit.Script+"```\n") {
		t.Errorf("docs/keys.md does not have this script:\n%s", cloudinit.Script)
	}
}

// TestLinks follows every relative link of the documentation to its heading.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	expect.NoError(t, err)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range append(pages, filepath.Join(root, "README.md"),
		filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root,
			"CHANGELOG.md"), filepath.Join(root, "SECURITY.md")) {
		data := expect.File(t, page)
		for _, match := range link.FindAllStringSubmatch(string(data), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}

			file, anchor, _ := strings.Cut(match[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}

			text, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s: link %s: %v", filepath.Base(page), match[1], err)
				continue
			}

			if anchor != "" && !slices.Contains(anchors(string(text)), anchor) {
				t.Errorf("%s: link %s: no such heading", filepath.Base(page), match[1])
			}
		}
	}
}

// pageName is a page's, from the root of the project or from a test's directory, with a heading.
var pageName = regexp.MustCompile(`(?m)(?:^|[^\w./-]|\.\./)(docs/[\w-]+\.md)(?:#([\w-]+))?`)

// TestNamedPages: each page that code, messages, tables, manifests and scripts name is there, and has
// the heading.
func TestNamedPages(t *testing.T) {
	named := map[string]bool{}
	expect.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, entry.Name()):
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}

		data := expect.File(t, path)
		if !bytes.Contains(data, []byte("docs/")) {
			return nil // most files, and the expression is slow
		}

		for _, name := range pageName.FindAllStringSubmatch(string(data), -1) {
			named[filepath.Ext(path)] = true
			page, err := os.ReadFile(filepath.Join(root, name[1]))
			if err != nil || name[2] != "" && !slices.Contains(anchors(string(page)), name[2]) {
				t.Errorf("%s names %s, and there is no such page or heading", path, name[0])
			}
		}

		return nil
	}))

	for _, kind := range []string{".go", ".yaml", ".txtar", ".md", ""} {
		if !named[kind] {
			t.Errorf("no file with the ending %q names a page", kind)
		}
	}
}

// anchors returns the names that GitHub gives the headings of a page: lower case,
// spaces become "-", and only letters, digits, "-" and "_" remain.
func anchors(text string) []string {
	drop := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	var names []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := drop.ReplaceAllString(strings.ToLower(heading[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}

	return names
}
