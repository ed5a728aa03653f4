package words_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"hook-sidecar/pkg/words"
	"hook-sidecar/test/expect"
)

// FuzzUntrusted: nothing that a terminal obeys is left, printable text stays, and JSON
// has the same value.
func FuzzUntrusted(f *testing.F) {
	for _, text := range []string{
		"plain", "ä € 漢", "\x1b[31m\n\u009b1m", "\u00a0\u0080\u009f\u202e", "\xc2",
		"a\xc2\x9b\x9b", "\\u009b\\",
	} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		line := words.Printable(text)
		if at := strings.IndexFunc(line, func(r rune) bool {
			return !unicode.IsPrint(r)
		}); at >= 0 {
			t.Errorf("%q becomes %q", text, line)
		}

		if strings.IndexFunc(text, func(r rune) bool {
			return !unicode.IsPrint(r)
		}) < 0 && utf8.ValidString(text) && !strings.ContainsRune(text, utf8.RuneError) &&
			line != text {
			t.Errorf("%q becomes %q", text, line)
		}

		data, err := json.Marshal(text)
		expect.NoError(t, err)
		var written bytes.Buffer
		_, err = words.JSONWriter{To: &written}.Write(data)
		expect.NoError(t, err)
		safe := written.Bytes()
		if at := strings.IndexFunc(string(safe), func(r rune) bool {
			return r < ' ' || r >= 0x80 && r <= 0x9f
		}); at >= 0 {
			t.Errorf("%q is %q in JSON", text, safe)
		}

		var want, got string
		if err := errors.Join(json.Unmarshal(data, &want),
			json.Unmarshal(safe, &got)); err != nil || got != want {
			t.Errorf("%q is %q in JSON: %q, %v", text, safe, got, err)
		}
	})
}
