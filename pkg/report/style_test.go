package report_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"hook-sidecar/pkg/report"
)

func text(t *testing.T, r report.Report, style report.Style) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteText(&b, style); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var colour = regexp.MustCompile("\x1b\\[[0-9]*m")

// Plain text is ASCII within 100 columns and without spaces at line ends;
// colours add nothing else.
func TestStyle(t *testing.T) {
	for _, host := range hostNames(t) {
		snapshot := readHost(t, host)
		for _, layout := range layouts() {
			r := reportOf(t, snapshot, wholeHost(t, snapshot), layout)
			plain := text(t, r, report.Style{})
			for line := range strings.Lines(plain) {
				line = strings.TrimSuffix(line, "\n")
				if n := utf8.RuneCountInString(line); n > 100 || n != len(line) || strings.TrimRight(line, " ") != line {
					t.Errorf("%s, %s: %d columns, %d bytes: %q", host, layout, n, len(line), line)
				}
			}
			coloured := text(t, r, report.Style{Colour: true})
			if got := colour.ReplaceAllString(coloured, ""); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(plain, " ", "") {
				t.Errorf("%s, %s: without its colours the text is not the plain one:\n%s", host, layout, got)
			}
			if !strings.Contains(coloured, "\x1b[1mHOST") {
				t.Errorf("%s, %s: no colours in the coloured text", host, layout)
			}
		}
	}
}

// Long names are cut, so that the line holds; the device keeps its number, by
// which it is found in every part.
func TestLongAlias(t *testing.T) {
	long := "ua-hostdevice-" + strings.Repeat("very-long-name-", 10)
	r := reportOf(t, readHost(t, "x86-2n8g-hgx-h100"), hostileDomain(long), "numa")
	plain := text(t, r, report.Style{})
	for line := range strings.Lines(plain) {
		if len(line) > len("\n")+100 {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
	if strings.Count(plain, "#0") != 3 {
		t.Errorf("the device's number is to be in both trees and the table:\n%s", plain)
	}
}
