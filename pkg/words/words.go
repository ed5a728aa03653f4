// Package words writes for people: short forms of long input, counts, sizes, where JSON is wrong, and
// the question that follows a word that is nearly another.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Abridge shortens input for a message to at most 40 bytes of valid UTF-8 and "…". Shorter input
// stays as it is.
func Abridge(s string) string { return AbridgeTo(s, 40) }

// AbridgeTo shortens a text as Abridge does, with another limit.
func AbridgeTo(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// Misread shortens input in the place of a number or an address for a message. A long word of other
// letters may be a password, so "…" stands for it.
func Misread(s string) string {
	const long = 8
	var b strings.Builder
	isOther := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for s != "" {
		end := strings.IndexFunc(s, isOther)
		if end < 0 {
			end = len(s)
		}

		word, isHex := s[:end], strings.Trim(s[:end], "0123456789abcdefABCDEF") == ""
		if len(word) > long && !isHex {
			word = "…"
		}

		_, size := utf8.DecodeRuneInString(s[end:])
		b.WriteString(word + s[end:end+size])
		s = s[end+size:]
	}

	return Abridge(b.String())
}

// OfPanic returns what a panic says, cut: it may contain a domain.
func OfPanic(cause any) string { return AbridgeTo(fmt.Sprint(cause), 256) }

// OneLine returns a text without newlines, with one space between words.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Printable replaces characters that move a terminal's cursor or turn its text's direction.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// DidYouMean asks, between two texts, for the word that is spelled nearly as a user's: at most two
// letters differ, and no more than a third of the longer word. It is "" where no word is.
func DidYouMean(word string, words []string, before, after string) string {
	nearest, least := "", 2
	for _, w := range words {
		most := min(least, max(len(word), len(w))/3)
		if difference := len(word) - len(w); max(difference, -difference) > most {
			continue
		}

		// A later word has to be nearer, so the first of equals is asked for.
		if d := distance(word, w); d > 0 && d <= most {
			nearest, least = w, d-1
		}
	}

	if nearest == "" {
		return ""
	}

	return before + "did you mean " + nearest + "?" + after
}

// distance counts the letters to be added, removed, changed or exchanged with their neighbour
// between two words (optimal string alignment).
func distance(a, b string) int {
	// rows[i][j] is the distance between the first i letters of a and the first j of b.
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j], rows[i][j-1], rows[i-1][j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
				}
			}
		}
	}

	return rows[len(a)][len(b)]
}

// Counted formats a number with its noun: "1 device", "2 devices".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Number formats a number with as many decimals as it has: "2.5", "16".
func Number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// BytesNeeded formats a number of bytes with a binary unit and at most one decimal, and rounds up:
// a need never looks smaller than it is.
func BytesNeeded(bytes uint64) string { return formatBytes(bytes, true) }

// BytesThere formats a size as BytesNeeded does, but rounds down: space never looks larger than it
// is.
func BytesThere(bytes uint64) string { return formatBytes(bytes, false) }

func formatBytes(bytes uint64, up bool) string {
	size, unit := uint64(1), "bytes" // the largest unit that is not larger than bytes
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if bytes>>10 < size {
			break
		}
		size, unit = size<<10, larger
	}

	rest := bytes % size * 10 // fits: what is left is less than 2^60
	if up {
		rest += size - 1
	}

	whole, tenths := bytes/size+rest/size/10, rest/size%10
	if tenths == 0 {
		return fmt.Sprintf("%d %s", whole, unit)
	}

	return fmt.Sprintf("%d.%d %s", whole, tenths, unit)
}

// FirstOf lists the first few texts, and how many more there are.
func FirstOf(texts []string, shown int, separator string) string {
	if more := len(texts) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:shown], separator), more)
	}
	return strings.Join(texts, separator)
}

// And lists texts: "a", "a and b", "a, b and c".
func And(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}
