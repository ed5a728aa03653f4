package kubectl

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// planted is a secret of the VMs and their pods.
const planted = "hunter2xyz"

// What an archive has is what the cluster has, without secrets. What the user may not read is
// named, and the rest is there.
func (c *cluster) testCollect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dgx.tar.gz")
	started := time.Now()
	r := c.as(t, "viewer", "collect", "dgx", "--output-file", file)
	t.Logf("collect took %s", time.Since(started))
	for _, want := range []string{
		"you may not list pods in all namespaces", "you may not list nodes", "wrote " + file,
	} {
		if r.code != 0 || !strings.Contains(r.err, want) {
			t.Errorf("exit status %d, no %q: %s", r.code, want, r.err)
		}
	}

	same(t, "explain of the archive", c.as(t, "viewer", "explain", "dgx", "-f", file).out,
		c.as(t, "viewer", "explain", "dgx").out)
	if r := c.as(t, "viewer", "why", "dgx", "-f", file); !strings.Contains(r.out, "runs on node "+
		node) {
		t.Errorf("why of the archive: %s%s", r.out, r.err)
	}

	all := string(command(t, "tar", "-xzOf", file))
	if strings.Contains(all, planted) || !strings.Contains(all, `"example.com/greeting": "…"`) {
		t.Errorf("the archive has the secret, or not its name")
	}
}
