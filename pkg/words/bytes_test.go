package words_test

import (
	"math"
	"testing"

	"hook-sidecar/pkg/words"
)

func TestBytes(t *testing.T) {
	for _, tt := range []struct {
		bytes         uint64
		needed, there string
	}{
		{0, "0 bytes", "0 bytes"},
		{1023, "1023 bytes", "1023 bytes"},
		{1 << 10, "1 KiB", "1 KiB"},
		{3 << 19, "1.5 MiB", "1.5 MiB"},
		{128 << 30, "128 GiB", "128 GiB"},
		{128<<30 + 1, "128.1 GiB", "128 GiB"},
		{64_000_000, "61.1 MiB", "61 MiB"},
		{1099981389824, "1.1 TiB", "1 TiB"}, // 1.0004 TiB: the eight GPUs of the demo host
		{1<<40 - 1, "1024 GiB", "1023.9 GiB"},
		{1 << 40, "1 TiB", "1 TiB"},
		{math.MaxUint64, "16 EiB", "15.9 EiB"},
	} {
		if got := words.BytesNeeded(tt.bytes); got != tt.needed {
			t.Errorf("BytesNeeded(%d) = %q, want %q", tt.bytes, got, tt.needed)
		}
		if got := words.BytesThere(tt.bytes); got != tt.there {
			t.Errorf("BytesThere(%d) = %q, want %q", tt.bytes, got, tt.there)
		}
	}
}
