package env_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/env"
	"hook-sidecar/test/expect"
)

func TestParseEnviron(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"lines", "A=1\nB=2\n", []string{"A=1", "B=2"}},
		{"no newline at the end", "A=1", []string{"A=1"}},
		{"empty lines, comments, CRLF", "# from compute\r\n\r\nA=1\r\n  # B=2\n\n",
			[]string{"A=1"}},
		{"values stay as they are", "A= x # y =z \n", []string{"A= x # y =z "}},
		{"no value", "A=\n", []string{"A="}},
		{"NUL, as /proc/PID/environ", "A=1\x00B=two\nlines\x00", []string{"A=1", "B=two\nlines"}},
		{"NUL, no comments", "#A=1\x00", []string{"#A=1"}},
		{"nothing", "", nil},
	} {
		got, err := env.ParseEnviron(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		expect.Same(t, tc.want, got, "%s (-want +got)", tc.name)
	}
}

func TestParseEnvironRefuses(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"line without =", "A=1\n\n# c\nSECRET\n", "line 4"},
		{"line without a name", "=SECRET\n", "line 1"},
		{"entry without =", "A=1\x00SECRET\x00", "entry 2"},
	} {
		got, err := env.ParseEnviron(tc.text)
		if err == nil || !strings.Contains(err.Error(), tc.want) ||
			strings.Contains(err.Error(), "SECRET") || got != nil {
			t.Errorf("%s: %v, %v; want an error with %q", tc.name, got, err, tc.want)
		}
	}
}
