package words_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/words"
)

// A word that is nearly another has a question, any other none, however long.
func TestDidYouMean(t *testing.T) {
	known := []string{"layout", "strict", "add", "hotplug-ports", "dry-run"}
	for word, want := range map[string]string{
		"layuot": "layout", "layot": "layout", "Layout": "layout", "laayout": "layout",
		"hotplugports": "hotplug-ports",
		"dryrun":       "dry-run", "ad": "add", "xd": "", "layout": "", "mirror": "", "": "",
		strings.Repeat("layout", 1<<20): "",
	} {
		if want != "" {
			want = "did you mean " + want + "? "
		}
		if got := words.DidYouMean(word, known, "", " "); got != want {
			t.Errorf("%s: %q, want %q", words.Abridge(word), got, want)
		}
	}
}

// TestMisread: what may be an address stays readable, what may be a password does not.
func TestMisread(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"gpu0":                       "gpu0",
		"0000:1g:00.0":               "0000:1g:00.0",
		"../etc/passwd":              "../etc/passwd",
		"deadbeefdeadbeef":           "deadbeefdeadbeef",
		"hunter2xyz":                 "…",
		"token:hunter2xyz, 0x9d":     "token:…, 0x9d",
		"\xff é\x00hunter2xyz":       "\xff é\x00…",
		strings.Repeat("1", 41):      strings.Repeat("1", 40) + "…",
		strings.Repeat("0:", 40):     strings.Repeat("0:", 20) + "…",
		"x" + strings.Repeat("é", 9): "…",
	} {
		if got := words.Misread(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
