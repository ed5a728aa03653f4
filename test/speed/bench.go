package speed

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
	"time"

	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// patience bounds what takes milliseconds on an idle machine.
const patience = time.Minute

// Bench is what a benchmark runs: the programs, and an echo.
type Bench struct {
	dir  string // of the programs
	echo *Server
}

// NewBench builds the programs and starts an echo until the benchmark ends.
func NewBench(b *testing.B) *Bench {
	b.Helper()
	bench := &Bench{dir: b.TempDir()}
	expect.NoError(b, Build(bench.dir))
	socket := filepath.Join(hookstest.Dir(b), "echo.sock")
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	var err error
	if bench.echo, err = Start(ctx, exec.Command(filepath.Join(bench.dir, "echo"), socket), socket, io.Discard); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { bench.echo.Stop() }) // ends by the signal
	return bench
}

// Run races the hook against the echo and reports the figures.
func (bench *Bench) Run(b *testing.B, vm VM, layout, sysfs string) Figures {
	b.Helper()
	vm, err := vm.Annotated(map[string]string{"hostdev.vm.kubevirt.io/layout": layout})
	expect.NoError(b, err)
	starting, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	hook, err := StartHook(starting, filepath.Join(bench.dir, "hook-sidecar"), hookstest.Dir(b), sysfs, io.Discard)
	expect.NoError(b, err)
	defer func() {
		if err := hook.Stop(); err != nil {
			b.Error(err)
		}
	}()
	race, err := NewRace(b.Context(), hook, bench.echo, vm)
	expect.NoError(b, err)
	for b.Loop() {
		expect.NoError(b, race.Round(b.Context()))
	}
	f := race.Figures()
	b.ReportMetric(0, "ns/op") // of both calls and the pauses
	b.ReportMetric(float64(f.HookP50.Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(f.HookP99.Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(f.EchoP50.Nanoseconds()), "echo-p50-ns")
	b.ReportMetric(float64(f.EchoP99.Nanoseconds()), "echo-p99-ns")
	b.ReportMetric(f.Ratio(), "x-echo")
	return f
}

// configBytes is the size of the configuration space of PCI Express
// (include/uapi/linux/pci_regs.h).
const configBytes = 4096

// Directory makes a host a directory of files and links. Each device has its
// configuration space, as in sysfs: a snapshot has none.
func Directory(tb testing.TB, host fs.FS) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "sys")
	expect.NoError(tb, os.CopyFS(dir, host))
	err := fs.WalkDir(host, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Base(name) != "class" {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path.Dir(name), "config"), make([]byte, configBytes), 0o644)
	})
	expect.NoError(tb, err)
	return dir
}
