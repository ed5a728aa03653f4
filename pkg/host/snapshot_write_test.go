package host_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
)

// take takes a snapshot and fails when anything is left out.
func take(tb testing.TB, fsys fs.FS, comment string) []byte {
	tb.Helper()
	snapshot, problems, err := host.TakeSnapshot(fsys)
	expect.NoError(tb, err)
	if len(problems) > 0 {
		tb.Fatalf("left out: %v", problems)
	}

	data, err := snapshot.Format(comment)
	expect.NoError(tb, err)
	return data
}

func snapshotFiles(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(hostsDir, "*.txtar"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no hosts in %s: %v", hostsDir, err)
	}

	return files
}

// A snapshot of a snapshot has the same bytes. Those of testdata were made by
// other means and have meminfo of the nodes, which TakeSnapshot leaves out.
func TestSnapshotRoundTrip(t *testing.T) {
	meminfo := regexp.MustCompile(`(?m)^-- devices/system/node/node\d+/meminfo --\n.*\n`)
	for _, file := range snapshotFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data := expect.File(t, file)
			want := meminfo.ReplaceAllString(string(data), "")
			expect.Same(t, want,
				string(take(t, parse(t, string(data)),
					host.SnapshotComment(data))), "the snapshot of a snapshot (-given +taken)")
		})
	}
}

// Every fifth case, with WHOLE=1 every one, has the same plan on a snapshot as on its source. For
// the hosts of testdata TestSnapshotKeepsDetails shows that all is read alike.
func TestSnapshotPlansTheSame(t *testing.T) {
	for _, c := range cases.Sampled(t, "../..", 5) {
		want := c.Planner.Read(c.Request).Plan()
		c.Planner.Sysfs = snapshotOf(t, c.Planner.Sysfs)
		got := c.Planner.Read(c.Request).Plan()
		expect.Same(t, string(want.Domain), string(got.Domain), "%s: the domain (-host +snapshot)",
			c.Name)
		expect.Same(t, explain(t, want), explain(t, got), "%s: the plan (-host +snapshot)", c.Name)
	}
}

func explain(t *testing.T, r plan.Result) string {
	t.Helper()
	data, err := json.MarshalIndent(report.New(r.Plan, r.Changed(), r.Err), "", " ")
	expect.NoError(t, err)
	return string(data)
}

// snapshotOf returns a snapshot of a file system; an empty one when the host shows
// no PCI devices, which TakeSnapshot refuses.
func snapshotOf(t *testing.T, fsys fs.FS) fs.FS {
	t.Helper()
	snapshot, _, err := host.TakeSnapshot(fsys)
	if err != nil {
		return fstest.MapFS{}
	}

	data, err := snapshot.Format("")
	expect.NoError(t, err)
	return parse(t, string(data))
}

// A snapshot has the files of details, but for config.
func TestSnapshotKeepsDetails(t *testing.T) {
	for _, file := range snapshotFiles(t) {
		source := open(t, file)
		want, problems := readAll(source)
		copied := parse(t, string(take(t, source, "")))
		got, gotProblems := readAll(copied)
		expect.Problems(t, slices.Concat(problems, gotProblems), nil)

		if !slices.ContainsFunc(want.Functions, func(d topology.Function) bool {
			return d.MaxLink != nil && d.Details.ResetKnown
		}) {
			t.Fatalf("%s: no details were read", file)
		}

		if d := cmp.Diff(want, got, compare); d != "" {
			t.Errorf("%s (-source +snapshot):\n%s", file, d)
		}
	}
}

// A snapshot that root takes has the ACS, ATS and AtomicOps of the configuration space, and a
// snapshot of it has them too.
func TestSnapshotKeepsCapabilities(t *testing.T) {
	files := expect.Host(t, `cpus 0 0-3
pci0000:00/0000:00:01.0 class=0x060400 acs=rr,cr,ec
pci0000:00/0000:00:02.0 class=0x060400 acs=nopeers atomics=routing,32,64,blocked
pci0000:00/0000:00:03.0 class=0x060400 acs=none
pci0000:00/0000:00:01.0/0000:01:00.0 ats=on
pci0000:00/0000:00:02.0/0000:02:00.0 conventional`)

	want, problems := readAll(files)
	first := take(t, files, "")
	second := take(t, parse(t, string(first)), "")
	got, gotProblems := readAll(parse(t, string(second)))
	expect.Problems(t, slices.Concat(problems, gotProblems), nil)
	if d := cmp.Diff(want, got, compare); d != "" || !want.Functions[0].Details.ExtendedConfig ||
		want.Functions[0].Details.ACS == nil || want.Functions[1].Details.AtomicOps == nil {
		t.Errorf("-source +snapshot of the snapshot:\n%s", d)
	}

	if string(first) != string(second) {
		t.Error("a snapshot of the snapshot differs")
	}
}

// A snapshot has nothing that identifies the machine or a part of it, wherever
// sysfs shows it. The UUID of a mediated device is its name and is included.
func TestSnapshotHoldsNoIdentity(t *testing.T) {
	host := expect.Host(t, `
cpus 0 0-3
pci0000:00/0000:00:01.0/0000:01:00.0 node=0 group=7 driver=vfio-pci
pci0000:00/0000:00:01.0/0000:01:00.0/4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01 type=nvidia-222
`).Leaves()

	const nic = "devices/pci0000:00/0000:00:01.0/0000:01:00.0/"
	secrets := map[string]string{
		nic + "net/eth0/address":                "secret-mac",
		nic + "infiniband/mlx5_0/node_guid":     "secret-guid",
		nic + "serial_number":                   "secret-serial",
		nic + "vpd":                             "secret-vpd",
		nic + "config":                          "secret-config",
		nic + "label":                           "secret-label",
		nic + "uevent":                          "secret-uevent",
		"devices/virtual/dmi/id/product_uuid":   "secret-uuid",
		"devices/virtual/dmi/id/board_serial":   "secret-board",
		"class/dmi/id/product_serial":           "secret-product",
		"kernel/hostname":                       "secret-host",
		"firmware/dmi/tables/DMI":               "secret-dmi",
		"devices/system/node/node0/meminfo":     "secret-meminfo",
		"devices/system/cpu/cpu0/topology/ppin": "secret-ppin",
	}

	for name, secret := range secrets {
		host[name] = &fstest.MapFile{Data: []byte(secret), Mode: 0o444}
	}

	data := string(take(t, host, ""))
	if at := strings.Index(data, "secret-"); at >= 0 {
		t.Errorf("the snapshot contains %q", data[at:min(len(data), at+20)])
	}

	if !strings.Contains(data, "4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01") {
		t.Error("the mediated device is missing")
	}
}

// A file that cannot be read is reported and left out. The rest is taken.
func TestSnapshotReportsWhatItLeavesOut(t *testing.T) {
	files := expect.Host(t, "pci0000:00/0000:00:01.0/0000:01:00.0 group=7").Leaves()
	const gpu = "devices/pci0000:00/0000:00:01.0/0000:01:00.0"
	files[gpu+"/reset_method"] = &fstest.MapFile{
		Data: []byte("flr\n-- devices/evil --\n"), Mode: 0o444,
	}

	files[gpu+"/driver"] = &fstest.MapFile{
		Data: []byte("../../../../../../etc"), Mode: fs.ModeSymlink | 0o777,
	}

	files["bus/pci/devices/nonsense"] = &fstest.MapFile{Data: []byte("x"), Mode: 0o444}
	snapshot, problems, err := host.TakeSnapshot(files)
	expect.NoError(t, err)
	var sources []string
	for _, p := range problems {
		source, _, _ := strings.Cut(p.Text, ": ")
		sources = append(sources, source)
	}

	expect.Same(t, []string{
		"bus/pci/devices", gpu + "/driver", gpu + "/reset_method",
	}, sources, "problems (-want +got)")

	data, err := snapshot.Format("A host.\n")
	if err != nil || strings.Contains(string(data), "evil") ||
		!strings.Contains(string(data), gpu+"/class") {
		t.Errorf("%v\n%s", err, data)
	}
}

func TestSnapshotRefuses(t *testing.T) {
	if _, _, err := host.TakeSnapshot(fstest.MapFS{}); err == nil ||
		!strings.Contains(err.Error(), "bus/pci/devices") {
		t.Errorf("a tree without PCI devices: %v; want an error that names bus/pci/devices", err)
	}

	snapshot, _, err := host.TakeSnapshot(parse(t,
		"-- bus/pci/devices/0000:00:00.0 -> ../../../devices/pci0000:00/0000:00:00.0 --\n"+
			"-- devices/pci0000:00/0000:00:00.0/class --\n0x060000\n"))
	expect.NoError(t, err)
	if _, err := snapshot.Format("head\n-- a/file --\n"); err == nil {
		t.Error("a comment that begins an entry is accepted")
	}
}

// A snapshot of 200 devices should take less than a second. This is a benchmark
// because a test with a time limit fails on a busy machine.
func BenchmarkSnapshot(b *testing.B) {
	var text strings.Builder
	text.WriteString("cpus 0 0-63\ncpus 1 64-127\n")
	for n := range 100 {
		fmt.Fprintf(&text,
			"pci%04[1]x:00/%04[1]x:00:01.0/%04[1]x:01:00.0 node=%[2]d group=%[1]d "+
				"driver=vfio-pci io\n", n, n%2)
	}

	host := expect.Host(b, text.String())
	dir := expect.HostDir(b, host)
	for name, fsys := range map[string]fs.FS{"memory": host, "directory": open(b, dir)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				take(b, fsys, "")
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(time.Millisecond),
				"ms/200-functions")
		})
	}
}
