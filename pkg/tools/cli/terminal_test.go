package cli

import "testing"

// TestForTerminal: a terminal obeys this program's colours, ends of lines and tabs, and nothing else.
func TestForTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[31mred\x1b[0m\n\ta\r\n":       "\x1b[31mred\x1b[0m\n\ta\n",
		"a\x1b]0;title\x07b\x1b[2Jc":        "a?]0;title?b?[2Jc",
		"\u009b31mC1 \u202eturned \xff end": "?31mC1 ?turned ? end",
		"\x1b[8mhidden \x1b[1;31mx":         "?[8mhidden ?[1;31mx",
		"é 漢 plain":                         "é 漢 plain",
	} {
		if got := string(forTerminal([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
