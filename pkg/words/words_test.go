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
