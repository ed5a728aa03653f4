package redact

import (
	"regexp"
	"strings"
	"testing"
)

// named is what a pair looks like. The groups are those of pair, and the quote before the name.
var named = regexp.MustCompile(`(^|[^\w.$%/-]|--?)(\\*["'])?([A-Za-z_][\w.$/-]*(?:\[[^\]\s]*\])?)(\\*["'])?(\s*:=\s*|\s*=>?\s*|\s*:[ \t]*)`)

// firstNamed returns the first pair of a text from a place on, as the expression finds it.
func firstNamed(text string, from int) (p pair, isFound bool) {
	found := named.FindStringSubmatch(text[from:])
	if found == nil {
		return pair{}, false
	}

	p = pair{before: found[1], name: found[3], quote: found[4], sign: found[5]}
	p.value = from + named.FindStringIndex(text[from:])[1]
	if p.quote != "" && strings.HasPrefix(text[p.value:], "\n") {
		end := len(text) - len(strings.TrimLeft(text[p.value:], whitespace))
		p.sign, p.value = p.sign+text[p.value:end], end
	}

	return p, true
}

// FuzzPairs: a text has the pairs that the expression finds, from each place on.
func FuzzPairs(f *testing.F) {
	for _, spelling := range allSpellings() {
		f.Add(spelling)
	}

	for _, text := range []string{
		`a-b=c`, `--a=b`, `---a=b`, `1-a=b`, `%a=b`, `é"a":b`, "a\n=>\nb:\nc", `a[0]=b`, `a[0 =b]=c`,
		`a[b[c=d`, `a[b]c=d`, `\\\"a\\\"=b`, `\\\a=b`, `"a=b`, `a"=b`, `a" b=c`, `a b:=c`, "\xff a:b",
		`a $b=c $d/e=f`, `a\b=c`, `'"a=b`, `A-"A0=`,
	} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		text = text[:min(len(text), 200)] // each is searched from each place
		for from := range len(text) + 1 {
			ps := pairs{text: text}
			got, isFound := ps.next(from)
			if want, isNamed := firstNamed(text, from); isFound != isNamed || got != want {
				t.Fatalf("%q from %d: got %+v, want %+v", text, from, got, want)
			}
		}
	})
}

// pairsOfLog are lines of a component that logs pairs.
var pairsOfLog = strings.Repeat(`2026-11-22T10:00:00Z level=info msg="plugin answered" `+
	`resource=nvidia.com/GH100 device=0000:1b:00.0 state=healthy count=8 error=none`+"\n", 10_000)

// BenchmarkPairs takes lines of pairs, and beside it what the expression alone takes to find them.
func BenchmarkPairs(b *testing.B) {
	b.Run("log", func(b *testing.B) {
		b.SetBytes(int64(len(pairsOfLog)))
		for b.Loop() {
			Log(pairsOfLog)
		}
	})

	b.Run("reference", func(b *testing.B) {
		b.SetBytes(int64(len(pairsOfLog)))
		for b.Loop() {
			named.FindAllStringIndex(pairsOfLog, -1)
		}
	})
}
