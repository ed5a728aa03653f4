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

	"hook-sidecar/pkg/hooks"
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
	if bench.echo, err = Start(ctx, exec.Command(filepath.Join(bench.dir, "echo"), socket), socket,
		io.Discard); err != nil {
		b.Fatal(err)
	}

	b.Cleanup(func() { bench.echo.Stop() }) // ends by the signal
	return bench
}

// warmUp is how many rounds a race makes before those that count.
const warmUp = 5

// Run races the hook against the echo, reports the figures, and returns the median of
// the hook.
func (bench *Bench) Run(b *testing.B, vm VM, layout, sysfs string) time.Duration {
	b.Helper()
	vm, err := vm.Annotated(map[string]string{"hostdev.vm.kubevirt.io/layout": layout})
	expect.NoError(b, err)
	starting, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	sockets := hookstest.Dir(b)
	command := Hook(filepath.Join(bench.dir, "hook-sidecar"), "serve", "--socket-dir", sockets,
		"--sysfs", sysfs)
	hook, err := Start(starting, command, filepath.Join(sockets, hooks.SocketName(container)),
		io.Discard)
	expect.NoError(b, err)
	defer func() {
		if err := hook.Stop(); err != nil {
			b.Error(err)
		}
	}()

	r := race{hook: hook, echo: bench.echo, vm: vm, took: map[*Server][]time.Duration{}}
	for range warmUp {
		expect.NoError(b, r.round(b.Context()))
	}

	clear(r.took)
	for b.Loop() {
		expect.NoError(b, r.round(b.Context()))
	}

	b.ReportMetric(0, "ns/op") // of both calls and the pauses
	median, echo := r.percentile(hook, 50), r.percentile(bench.echo, 50)
	b.ReportMetric(float64(median.Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(r.percentile(hook, 99).Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(echo.Nanoseconds()), "echo-p50-ns")
	b.ReportMetric(float64(r.percentile(bench.echo, 99).Nanoseconds()), "echo-p99-ns")
	b.ReportMetric(float64(median)/float64(echo), "x-echo")
	return median
}

// configBytes is the size of the configuration space of PCI Express
// (include/uapi/linux/pci_regs.h).
const configBytes = 4096

// Directory makes a host a directory of files and links. Each device has its
// configuration space, as in sysfs: a snapshot has none.
func Directory(tb testing.TB, host fs.FS) string {
	tb.Helper()
	dir := expect.HostDir(tb, host)
	err := fs.WalkDir(host, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Base(name) != "class" {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path.Dir(name), "config"), make([]byte, configBytes),
			0o644)
	})

	expect.NoError(tb, err)
	return dir
}
