package report_test

import (
	"bytes"
	"html"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/pkg/picture"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/words"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/machines"
)

// Of a device that the host does not show no path type is known: its pairs are
// neither as on the host nor different.
func TestUnknownDevice(t *testing.T) {
	sysfs := machines.Sysfs(t, machines.HGX)
	domain := bytes.Replace(machines.Domain(t, sysfs), []byte("bus='0x1b'"), []byte("bus='0x1a'"),
		1)
	got := text(t, machines.Report(t, sysfs, domain, "mirror"), report.Style{})

	// 20 devices, and the unknown one has 19 neighbours: 190 pairs.
	for _, want := range []string{
		"1 unplaced, no-sysfs: sysfs does not show the device\n",
		"171 of 190 pairs of devices as on the host,\n  19 not known; 1 without a place\n",
		"  19 not known on the host (?)", "warning: no-sysfs: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A host that shows none of the devices is not the node: that is all there is to say.
func TestUnknownHost(t *testing.T) {
	domain := machines.Domain(t, machines.Sysfs(t, machines.HGX))
	r := machines.Report(t, machines.Sysfs(t, machines.VGPU), domain, "keep")
	got := text(t, r, report.Style{})
	if !strings.Contains(got,
		"the host shows none of the 20 devices\n  remedy: run kubectl hostdev snapshot VM ") {
		t.Errorf("the host is not said to be another one:\n%s", got)
	}

	for _, not := range []string{
		"farther", "nearer", "layout mirror keeps", "SYS ", "HOST  ", "pairs", "warning: no-sysfs",
	} {
		if strings.Contains(got, not) {
			t.Errorf("%q is said of a host that is not known:\n%s", not, got)
		}
	}

	var b strings.Builder
	expect.NoError(t, picture.Write(&b, r))
	if svg := b.String(); strings.Contains(svg, `class="chip same"`) ||
		!strings.Contains(svg, `class="chip unknown"`) {
		t.Error("svg: a host that is not known is drawn as if it were")
	}
}

// Without guest NUMA cells these come first, where GPUs do not gain GPUDirect RDMA without them:
// text and picture begin with it, once.
func TestNoCells(t *testing.T) {
	sysfs := machines.Sysfs(t, machines.HGX)
	domain := regexp.MustCompile(`(?s)<numa>.*?</numa>|<numatune>.*?</numatune>`).ReplaceAll(
		machines.Domain(t, sysfs), nil)
	r := machines.Report(t, sysfs, domain, "root")
	got := text(t, r, report.Style{})
	if !strings.HasPrefix(words.OneLine(got), strings.Join(r.Headline[:2], "; ")+
		"; first give the guest NUMA cells remedy: give the guest NUMA cells:") ||
		strings.Count(got, "remedy: give") != 1 {
		t.Errorf("the text begins otherwise:\n%s", got)
	}

	var b strings.Builder
	expect.NoError(t, picture.Write(&b, r))
	if !strings.Contains(b.String(), ">"+html.EscapeString(r.Headline[0])+"<") ||
		!strings.Contains(b.String(), " · first give the gu") {
		t.Error("svg: no headline")
	}
}
