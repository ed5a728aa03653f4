package hooks_test

import (
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
)

// BenchmarkEcho is a call of this package's server with a mutator that does nothing,
// each on its own connection, client and server in one process. What a call costs
// against another echo: go test -bench OnDefineDomain ./cmd/hook-sidecar.
func BenchmarkEcho(b *testing.B) {
	for _, sample := range []string{"01-single-gpu", "02-8gpu-8nic-gate-off"} {
		domain := read(b, sample+".xml")
		vmi := read(b, sample+".vmi.json")
		b.Run(sample, func(b *testing.B) {
			server := hookstest.Start(b, hooks.Config{Mutator: hookstest.Func(hookstest.Echo)})
			b.ReportAllocs()
			for b.Loop() {
				client, err := hooks.Dial(b.Context(), server.HookSocket)
				if err != nil {
					b.Fatal(err)
				}
				reply, err := client.OnDefineDomain(b.Context(), hooks.V1alpha3, domain, vmi)
				if err != nil || len(reply) != len(domain) {
					b.Fatalf("%d bytes, %v", len(reply), err)
				}
				if err := client.Close(); err != nil {
					b.Fatal(err)
				}
			}
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
