package why

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/test/expect"
)

// thread is what a user posted in public about a VM, and what it came from, as the thread says.
type thread struct {
	source, solved string // address, and the cause in the thread's words
	vm             string // NAME or NAMESPACE/NAME
	cause          string // name in the table
	files          []txtar.File
}

// threads returns the bundles in testdata/threads. Who wrote them did not write the table, and
// wrote each cause down before the table was asked.
func threads(t *testing.T) map[string]thread {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "threads", "*.txtar"))
	expect.NoError(t, err)
	all := map[string]thread{}
	for _, name := range names {
		archive := txtar.Parse(expect.File(t, name))
		fields := map[string]string{}
		for line := range strings.Lines(string(archive.Comment)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			fields[key] = value
		}

		all[strings.TrimSuffix(filepath.Base(name), ".txtar")] = thread{
			source: fields["source"], solved: fields["solved"],
			vm: fields["vm"], cause: fields["cause"], files: archive.Files,
		}
	}

	return all
}

// diagnose returns the report about the thread's VM.
func (th thread) diagnose(t *testing.T) Report {
	t.Helper()
	namespace, name, isFull := strings.Cut(th.vm, "/")
	if !isFull {
		namespace, name = "", th.vm
	}

	e := &Evidence{Report: Report{Namespace: namespace, Name: name}}
	for _, f := range th.files {
		if strings.HasPrefix(f.Name, "guest/") {
			expect.NoError(t, e.AddGuestFile(f.Name, f.Data))
			continue
		}
		expect.NoError(t, e.AddFile(f.Name, f.Data))
	}

	return e.Diagnose()
}

// TestThreads: of what users posted in forty threads, the cause is named in nine of ten, and none
// is named wrong.
func TestThreads(t *testing.T) {
	all := threads(t)
	var named, wrong int
	for name, th := range all {
		if !strings.HasPrefix(th.source, "https://") || th.solved == "" || th.cause == "" {
			t.Errorf("%s lacks its source, what solved it, or its cause", name)
		}
		switch got := causes(th.diagnose(t).Causes); got {
		case th.cause:
			named++
		case "":
			t.Logf("%s: no cause, want %s", name, th.cause)
		default:
			wrong++
			t.Logf("%s: %s, want %s", name, got, th.cause)
		}
	}

	t.Logf("%d of %d named, %d wrong", named, len(all), wrong)
	if len(all) < 40 || named*10 < len(all)*9 || wrong > 0 {
		t.Errorf("of %d threads %d are named right and %d wrong", len(all), named, wrong)
	}
}
