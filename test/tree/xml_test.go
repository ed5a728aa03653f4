package tree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The recorded calls were printed by encoding/xml's MarshalIndent, so a tree
// that keeps everything prints the same bytes.
func TestPrintsAsVirtLauncher(t *testing.T) {
	files, err := filepath.Glob("../../testdata/samples/*.call*.xml")
	if err != nil || len(files) < 7 {
		t.Fatalf("recorded calls: %d files, %v", len(files), err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root, err := Parse(want)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if diff := cmp.Diff(string(want), string(root.Bytes())); diff != "" {
			t.Errorf("%s printed again (-file +printed):\n%s", file, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{"", "text", "<a>", "<a></b>", "<a/><b/>", "</a>", "<a/>text", `<a x="&no;"/>`} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("Parse(%q) succeeded, want an error", bad)
		}
	}
}

func TestSpans(t *testing.T) {
	document := `<d><!-- c --><a x='1'>text</a><q:b/></d>`
	root, err := Parse([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	a, b := root.Find("a"), root.Find("q:b")
	got := []string{document[a.Start:a.TagEnd], document[a.Start:a.End], document[b.Start:b.End]}
	want := []string{`<a x='1'>`, `<a x='1'>text</a>`, `<q:b/>`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}
