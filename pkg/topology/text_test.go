package topology_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
)

// What is nearly a word is found, what is not is not guessed at, however long.
func TestNearest(t *testing.T) {
	words := []string{"layout", "strict", "add", "hotplug-ports", "dry-run"}
	for word, want := range map[string]string{
		"layuot": "layout", "layot": "layout", "Layout": "layout", "laayout": "layout", "hotplugports": "hotplug-ports",
		"dryrun": "dry-run", "ad": "", "layout": "", "mirror": "", "": "", strings.Repeat("layout", 1<<20): "",
	} {
		if got := topology.Nearest(word, words); got != want {
			t.Errorf("%s: %q, want %q", topology.Abridge(word), got, want)
		}
	}
}
