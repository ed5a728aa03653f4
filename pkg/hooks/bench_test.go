package hooks_test

import (
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/hooks/hookstest"
)

// BenchmarkEcho measures a call with a mutator that does nothing.
func BenchmarkEcho(b *testing.B) {
	for _, sample := range []string{"01-single-gpu", "02-8gpu-8nic-gate-off"} {
		domain := read(b, sample+".xml")
		vmi := read(b, sample+".vmi.json")
		b.Run(sample, func(b *testing.B) {
			hookstest.BenchmarkOnDefineDomain(b, hookstest.Func(hookstest.Echo), domain, vmi)
		})
	}
}

func read(tb testing.TB, sample string) []byte {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "testdata", "samples", sample))
	if err != nil {
		tb.Fatal(err)
	}
	return content
}
