package why

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// TestDevice: device finds the address that the expression which describes it finds first.
func TestDevice(t *testing.T) {
	address := regexp.MustCompile(
		`\b(?:[0-9a-fA-F]{4})?([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(\.[0-7])?\b`)
	parts := []string{
		"0000:c1:00", "0000:", "c1:", "00", ".0", "00010000:", "A", "x", " ", "_", ":", ".9", "0", "ü",
	}
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 200_000 {
		line := ""
		for range 1 + random.IntN(9) {
			line += parts[random.IntN(len(parts))]
		}

		want := ""
		if f := address.FindStringSubmatch(line); f != nil {
			want, found = strings.ToLower(f[1]), found+1
		}
		if got := device(line); got != want {
			t.Fatalf("%q: %q, want %q", line, got, want)
		}
	}

	if found < 1000 {
		t.Errorf("%d lines have an address", found)
	}
}
