package report_test

import (
	"bytes"
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/picture"
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
		"171 of 190 pairs of devices as on the\n  host, 19 not known; the host's paths: ready 0, through the root complex 7; 1 without a place\n",
		"  19 not known on the host (?)", "warning: no-sysfs: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestPeerPaths: each pair of a NIC and a GPU that the guest shows under one switch has what the
// host's path is; the details' text lists them by cause. The hosts of the tests have Linux's ACS,
// and NICs without ATS.
func TestPeerPaths(t *testing.T) {
	r := machines.Whole(t, machines.HGX, "mirror")
	if len(r.PeerPaths) != 8 {
		t.Fatalf("%d paths, want one per GPU: %+v", len(r.PeerPaths), r.PeerPaths)
	}

	data, err := json.Marshal(r.PeerPaths[0])
	expect.NoError(t, err)
	expect.Same(t, `{"requester":"0000:18:00.1","completer":"0000:1b:00.0",`+
		`"readiness":"through the root complex","cause":"no-ats",`+
		`"functions":["0000:18:00.1"],"remedy":"on ConnectX: mlxconfig -d DEVICE set `+
		`ATS_ENABLED=true, then reboot the host"}`, string(data), "(-want +got)")

	const want = "HOST PATHS #0 to #1, #2 to #3, #4 to #5, #6 to #7, #8 to #9, #14 to #15, #16 to " +
		"#17, #18 to #19: through the root complex (no-ats): requests go up"
	if got := words.OneLine(text(t, r, report.Style{})); !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}

	// layout numa shows no switch, so nothing in the guest connects the pairs directly
	if flat := machines.Whole(t, machines.HGX, "numa"); len(flat.PeerPaths) > 0 {
		t.Errorf("layout numa has paths: %+v", flat.PeerPaths)
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
		"further apart", "nearer", "layout mirror keeps", "SYS ", "HOST  ", "pairs", "warning: no-sysfs",
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
// the text begins with it, once.
func TestNoCells(t *testing.T) {
	sysfs := machines.Sysfs(t, machines.HGX)
	domain := regexp.MustCompile(`(?s)<numa>.*?</numa>|<numatune>.*?</numatune>`).ReplaceAll(
		machines.Domain(t, sysfs), nil)
	r := machines.Report(t, sysfs, domain, "root")
	got := text(t, r, report.Style{})
	if !strings.HasPrefix(words.OneLine(got), strings.Join(
		r.Headline[:len(r.Headline)-1], "; ")+"; first give the guest NUMA cells remedy: give the guest NUMA cells:") ||
		strings.Count(got, "remedy: give") != 1 {
		t.Errorf("the text begins otherwise:\n%s", got)
	}

	var b strings.Builder
	expect.NoError(t, picture.Write(&b, r))
	if !strings.Contains(b.String(), ">"+html.EscapeString(r.Headline[0])+"<") {
		t.Error("svg: no headline")
	}
}
