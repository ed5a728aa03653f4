package explain_test

import (
	"bytes"
	"strings"
	"testing"

	"hook-sidecar/pkg/explain"
	"hook-sidecar/pkg/report"
)

// An alias with what a terminal obeys (U+009B begins its commands, U+202E turns text
// around) is harmless in every format that a terminal may show.
func TestPicturesAreHarmless(t *testing.T) {
	m, request := inputs(t, dgx, hgx)
	request.Domain = bytes.Replace(request.Domain, []byte("ua-gpu-gpu1"), []byte("ua-\u009b31mgpu\u202e"), 1)
	r, err := explain.NewRunning(m, request, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{explain.Text, explain.SVG} {
		var b bytes.Buffer
		if err := explain.Write(&b, r.Current, format, report.Style{}); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); strings.ContainsAny(text, "\u009b\u202e") || !strings.Contains(text, "ua-?31mgpu?") {
			t.Errorf("%s shows the alias as it is, or not at all", format)
		}
	}
}
