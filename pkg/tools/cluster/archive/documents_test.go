package archive

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// TestDocuments: no object of a file is lost, whatever is between it and the next.
func TestDocuments(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string // the line of the document, and the object
	}{
		{"one", "kind: A\n", []string{"1 kind: A"}},
		{"no newline", "kind: A", []string{"1 kind: A"}},
		{"dashes", "---\nkind: A\n---\nkind: B\n", []string{"1 kind: A", "3 kind: B"}},
		{"an object after the dashes", "--- {kind: A}\n--- {kind: B}",
			[]string{"1 {kind: A}", "2 {kind: B}"}},
		{"more dashes", "a\n-----\nb", []string{"1 a", "2 b"}},
		{"nothing between", "---\n---\n", nil},
		{"JSON after JSON", "{\"a\": \"}\\\"{\"}\n{\"b\": 1}{\"c\": {}}",
			[]string{`1 {"a": "}\"{"}`, `1 {"b": 1}`, `1 {"c": {}}`}},
		{"YAML after JSON", "{\"a\": 1}\nkind: B\n", []string{`1 {"a": 1}`, "1 kind: B"}},
		{"YAML that begins as JSON", "{a: 1,\n b: '}'}", []string{"1 {a: 1,\n b: '}'}"}},
		{"JSON that is cut", `{"a": 1`, []string{`1 {"a": 1`}},
		{"lists after each other", "# of a\nkind: A\nitems:\n- kind: C\nkind: B\nitems: []\n",
			[]string{"1 # of a\nkind: A\nitems:\n- kind: C", "1 kind: B\nitems: []"}},
		{"a key deeper", "kind: A\nspec:\n  kind: B\n", []string{"1 kind: A\nspec:\n  kind: B"}},
		{"a list", "- kind: A\n- kind: B\n", []string{"1 - kind: A\n- kind: B"}},
	}

	for _, test := range tests {
		var got []string
		for line, document := range Documents([]byte(test.text)) {
			for object := range ObjectsIn(document) {
				got = append(got, fmt.Sprint(line, " ", strings.TrimSpace(string(object))))
			}
		}

		expect.Same(t, test.want, got, "%s (-want +got)", test.name)
	}
}
