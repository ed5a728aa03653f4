package topology

import (
	"fmt"
	"strings"
)

// Abridge shortens a piece of input for a message to at most 40 bytes of valid
// UTF-8 and "…". A shorter one is returned as it is.
func Abridge(s string) string {
	const limit = 40
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// Counted formats a number with its noun: "1 device", "2 devices".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
