package tree

import (
	"path/filepath"
	"testing"

	"hook-sidecar/test/expect"
)

// The recorded calls were printed by encoding/xml's MarshalIndent, so a tree
// that keeps everything prints the same bytes.
func TestPrintsAsVirtLauncher(t *testing.T) {
	files, err := filepath.Glob("../../testdata/samples/*.call*.xml")
	if err != nil || len(files) < 7 {
		t.Fatalf("recorded calls: %d files, %v", len(files), err)
	}

	for _, file := range files {
		want := expect.File(t, file)
		root, err := Parse(want)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}

		expect.Same(t, string(want), string(root.Bytes()), "%s printed again (-file +printed)",
			file)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{
		"", "text", "<a>", "<a></b>", "<a/><b/>", "</a>", "<a/>text", `<a x="&no;"/>`,
	} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("Parse(%q) succeeded, want an error", bad)
		}
	}
}

func TestSpans(t *testing.T) {
	document := `<d><!-- c --><a x='1'>text</a><q:b/></d>`
	root, err := Parse([]byte(document))
	expect.NoError(t, err)
	a, b := root.Find("a"), root.Find("q:b")
	got := []string{document[a.Start:a.TagEnd], document[a.Start:a.End], document[b.Start:b.End]}
	want := []string{`<a x='1'>`, `<a x='1'>text</a>`, `<q:b/>`}
	expect.Same(t, want, got, "spans (-want +got)")
}
