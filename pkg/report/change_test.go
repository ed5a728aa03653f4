package report_test

import (
	"bytes"
	"strings"
	"testing"

	"hook-sidecar/pkg/report"
)

// Of a device that the host does not show no path type is known: its pairs are
// neither as on the host nor different.
func TestUnknownDevice(t *testing.T) {
	snapshot := readHost(t, "x86-2n8g-hgx-h100")
	domain := bytes.Replace(wholeHost(t, snapshot), []byte("bus='0x1b'"), []byte("bus='0x1a'"), 1)
	got := text(t, reportOf(t, snapshot, domain, "mirror"), report.Style{})
	// 20 devices, and the unknown one has 19 neighbours: 190 pairs.
	for _, want := range []string{
		"1 unplaced, no-sysfs: sysfs does not show the device\n", "190 pairs: 171 as on the host\n", "  19 not known on the host (?)", "warning: no-sysfs: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A host that shows none of the devices is not the node: that is all there is to say.
func TestUnknownHost(t *testing.T) {
	snapshot := readHost(t, "x86-2n8g-hgx-h100")
	r := reportOf(t, readHost(t, "x86-2n2g-t4-vgpu"), wholeHost(t, snapshot), "keep")
	got := text(t, r, report.Style{})
	if !strings.Contains(got, "\nnone of the 20 devices is on this host\n  remedy: run hook-sidecar snapshot on the node") {
		t.Errorf("the host is not said to be another one:\n%s", got)
	}
	for _, not := range []string{"farther", "nearer", "layout mirror keeps", "SYS ", "HOST  ", "pairs", "warning: no-sysfs"} {
		if strings.Contains(got, not) {
			t.Errorf("%q is said of a host that is not known:\n%s", not, got)
		}
	}
	if svg, _ := draw(t, r); strings.Contains(svg, `class="chip same"`) || !strings.Contains(svg, `class="chip unknown"`) {
		t.Error("svg: a host that is not known is drawn as if it were")
	}
}
