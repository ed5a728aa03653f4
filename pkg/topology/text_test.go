package topology_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
)

// A word that is nearly another has a question, any other none, however long.
func TestDidYouMean(t *testing.T) {
	words := []string{"layout", "strict", "add", "hotplug-ports", "dry-run"}
	for word, want := range map[string]string{
		"layuot": "layout", "layot": "layout", "Layout": "layout", "laayout": "layout",
		"hotplugports": "hotplug-ports",
		"dryrun":       "dry-run", "ad": "add", "xd": "", "layout": "", "mirror": "", "": "",
		strings.Repeat("layout", 1<<20): "",
	} {
		if want != "" {
			want = "did you mean " + want + "? "
		}
		if got := topology.DidYouMean(word, words, "", " "); got != want {
			t.Errorf("%s: %q, want %q", topology.Abridge(word), got, want)
		}
	}
}
