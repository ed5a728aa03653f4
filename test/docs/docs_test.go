// Package docs holds what the documentation says to what the code does.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/placement"
)

const root = "../.."

// read is a file of the project.
func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sections are the texts below the headings of reasons.md that name a code.
func sections(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	heading := regexp.MustCompile("(?m)^### `([^`]+)`$|^##? .*$")
	text := read(t, "docs/reasons.md")
	marks := heading.FindAllStringSubmatchIndex(text, -1)
	for i, mark := range marks {
		if mark[2] < 0 {
			continue
		}
		code := text[mark[2]:mark[3]]
		if _, twice := found[code]; twice {
			t.Errorf("reasons.md has two sections for %s", code)
		}
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		found[code] = text[mark[1]:end]
	}
	return found
}

// constants are the values of the string constants of a package whose names
// begin with a prefix: as declared, so that no list can forget one.
func constants(t *testing.T, folder, prefix string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
				return true
			}
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				text, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, text)
			}
			return true
		})
	}
	return set(values)
}

// set is the values in order, each once.
func set[T ~string](values []T) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

func TestListsHoldEveryCode(t *testing.T) {
	if d := cmp.Diff(constants(t, "pkg/placement", "Reason"), set(placement.Reasons())); d != "" {
		t.Errorf("reasons that are declared and those that are listed differ (-declared +listed):\n%s", d)
	}
	if d := cmp.Diff(constants(t, "pkg/placement", "Code"), set(placement.Codes())); d != "" {
		t.Errorf("warnings that are declared and those that are listed differ (-declared +listed):\n%s", d)
	}
}

func TestEveryCodeHasASection(t *testing.T) {
	want := set(slices.Concat(
		set(placement.Reasons()), set(placement.Codes()), constants(t, "pkg/env", "Code"),
	))
	var got []string
	for code, text := range sections(t) {
		got = append(got, code)
		if !strings.Contains(text, "To see ") {
			t.Errorf("reasons.md: the section of %s does not say how to see it", code)
		}
	}
	if d := cmp.Diff(want, set(got)); d != "" {
		t.Errorf("codes and sections of docs/reasons.md differ (-code +section):\n%s", d)
	}
}

// TestLinks follows every relative link of the documentation, to its heading.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
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

// anchors are the names that GitHub gives the headings of a page: lower case,
// blanks become "-", and but for letters, digits, "-" and "_" nothing stays.
func anchors(text string) []string {
	drop := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	var names []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := drop.ReplaceAllString(strings.ToLower(heading[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}
