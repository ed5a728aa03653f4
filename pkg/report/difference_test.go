package report_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/report"
)

// Of a device that the host does not show no path type is known: its pairs are
// neither as on the host nor different, and no layout promises to keep them.
func TestUnknownHost(t *testing.T) {
	snapshot := readHost(t, "x86-2n8g-hgx-h100")
	r := reportOf(t, readHost(t, "x86-2n2g-t4-vgpu"), wholeHost(t, snapshot), "keep")
	got := text(t, r, report.Style{})
	// 20 devices, none of them in the other machine's sysfs: 190 pairs.
	for _, want := range []string{"190 pairs: 0 as on the host", "190 not known on the host"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, not := range []string{"farther", "nearer", "layout mirror keeps", "SYS "} {
		if body, _, _ := strings.Cut(got, "PIX: at most"); strings.Contains(body, not) {
			t.Errorf("%q is said of a host that is not known:\n%s", not, got)
		}
	}
	if svg, _ := draw(t, r); strings.Contains(svg, `class="chip same"`) || !strings.Contains(svg, `class="chip unknown"`) {
		t.Error("svg: a host that is not known is drawn as if it were")
	}
}
