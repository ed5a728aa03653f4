package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"testing"

	"github.com/spf13/pflag"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/pkg/mutate"
	"hook-sidecar/test/hostfs"
)

// BenchmarkOnDefineDomain calls the hook, and an echo of the domain, through real
// sockets in one run, so that their ratio can be read: with the sample of 8 GPUs
// and 8 NICs, and with 64 devices. The hosts are directories of files, as /sys is,
// and once a snapshot in memory, to show the cost of reading a directory.
func BenchmarkOnDefineDomain(b *testing.B) {
	sample := benchSample(b)
	inMemory := sample.mutator
	sample.mutator.Sysfs = directoryOf(b, inMemory.Sysfs)
	many, domain := crowd(b, 64)
	for _, bench := range []struct {
		name    string
		mutator hooks.Mutator
		domain  []byte
	}{
		{"devices=16/echo", hookstest.Func(hookstest.Echo), sample.request.Domain},
		{"devices=16/hook", quiet(sample.mutator), sample.request.Domain},
		{"devices=16/hook-of-snapshot", quiet(inMemory), sample.request.Domain},
		{"devices=64/echo", hookstest.Func(hookstest.Echo), domain},
		{"devices=64/hook", quiet(many), domain},
	} {
		b.Run(bench.name, func(b *testing.B) {
			hookstest.BenchmarkOnDefineDomain(b, bench.mutator, bench.domain, sample.request.VMI)
		})
	}
}

func quiet(m mutate.Mutator) answerer {
	return newAnswerer(m, logTo(slog.New(slog.DiscardHandler), m))
}

func benchSample(b *testing.B) sample {
	b.Helper()
	s, err := readSample(addPolicyFlags(pflag.NewFlagSet("", pflag.ContinueOnError)))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkMutate grows the domain from 1 to 200 devices. The time per device should
// not grow with their number.
func BenchmarkMutate(b *testing.B) {
	for _, count := range []int{1, 10, 50, 100, 200} {
		m, domain := crowd(b, count)
		b.Run(fmt.Sprintf("devices=%d", count), func(b *testing.B) {
			var result mutate.Result
			for b.Loop() {
				result = m.Mutate(mutate.Request{Domain: domain})
			}
			if result.Err != nil || len(result.Plan.Devices) != count {
				b.Fatalf("%d devices, error %v", len(result.Plan.Devices), result.Err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/device")
		})
	}
}

// crowd is a domain with count devices on two cells, and their host.
func crowd(b *testing.B, count int) (mutate.Mutator, []byte) {
	b.Helper()
	host := "cpus 0 0-7\ncpus 1 8-15\n"
	var hostdevs bytes.Buffer
	for i := range count {
		host += fmt.Sprintf("pci0000:%02x/0000:%02x:%02x.0/0000:%02x:00.0 node=%d group=%d driver=vfio-pci\n", i%2, i%2, i/2%32, i+2, i%2, i)
		fmt.Fprintf(&hostdevs, `<hostdev type="pci" managed="no"><source><address domain="0x0000" bus="0x%02x" slot="0x00" function="0x0"></address></source><alias name="ua-gpu-%d"></alias></hostdev>`+"\n", i+2, i)
	}
	return mutate.Mutator{Sysfs: onDisk(b, host)}, fmt.Appendf(nil, `<domain type="kvm">
<name>crowd</name>
<os><type arch="x86_64" machine="q35">hvm</type></os>
<devices>
%s</devices>
<cpu><numa><cell id="0" cpus="0-7" memory="1" unit="GiB"></cell><cell id="1" cpus="8-15" memory="1" unit="GiB"></cell></numa></cpu>
<numatune><memnode cellid="0" mode="strict" nodeset="0"></memnode><memnode cellid="1" mode="strict" nodeset="1"></memnode></numatune>
</domain>`, hostdevs.Bytes())
}

// onDisk returns a host as a directory of files and links.
func onDisk(b *testing.B, host string) fs.FS {
	b.Helper()
	files, err := hostfs.Parse(host)
	if err != nil {
		b.Fatal(err)
	}
	return directoryOf(b, files)
}

// directoryOf copies a host into a directory, which is as slow to read as /sys.
func directoryOf(b *testing.B, files fs.FS) fs.FS {
	b.Helper()
	dir := b.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		b.Fatal(err)
	}
	sysfs, closer, err := env.OpenSysfs(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := closer.Close(); err != nil {
			b.Error(err)
		}
	})
	return sysfs
}
