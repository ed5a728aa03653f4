package topology

import (
	"fmt"
	"strings"
)

// Abridge shortens what a message shows of an input to 40 bytes, whatever the
// input was.
func Abridge(s string) string {
	const limit = 40
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// Counted is a number with what it counts, as in "1 device" and "2 devices".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
