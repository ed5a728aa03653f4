package report_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"hook-sidecar/pkg/report"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/machines"
)

// text returns a report's text with every section.
func text(t *testing.T, r report.Report, style report.Style) string {
	t.Helper()
	r.Details = report.Sections
	return short(t, r, style)
}

// short returns a report's text as it is without --details.
func short(t *testing.T, r report.Report, style report.Style) string {
	t.Helper()
	var b bytes.Buffer
	expect.NoError(t, r.WriteText(&b, style))
	return b.String()
}

// TestShort: without --details an administrator sees on one screen how the guest is, why, and where
// each device is. The last line says what else there is, by the names that --details takes.
func TestShort(t *testing.T) {
	for _, host := range machines.Names(t) {
		for _, layout := range machines.Layouts() {
			r := machines.Whole(t, host, layout)
			got := short(t, r, report.Style{})
			if lines := strings.Count(got, "\n"); lines > len(r.Devices)+24 {
				t.Errorf("%s, %s: %d lines:\n%s", host, layout, lines, got)
			}

			for i := range r.Devices {
				if !strings.Contains(got, fmt.Sprintf("\n#%d ", i)) {
					t.Errorf("%s, %s: no line of device #%d:\n%s", host, layout, i, got)
				}
			}

			if !strings.HasSuffix(got,
				"\nMore, all or by name: --details=trees,paths,consumers,links,start,budgets\n") {
				t.Errorf("%s, %s: the end does not say how to see more:\n%s", host, layout, got)
			}

			r.Details = []report.Section{report.SectionBudgets}
			if got := short(t, r, report.Style{}); len(r.Controllers) > 0 !=
				strings.Contains(got, "\nBUDGETS\n") || strings.Contains(got, "HOST  ") {
				t.Errorf("%s, %s: --details=budgets shows\n%s", host, layout, got)
			}
		}
	}
}

var colour = regexp.MustCompile("\x1b\\[[0-9]*m")

// Plain text is ASCII within the columns of the terminal, 100 without one, and without spaces at
// line ends; colours add nothing else. Each host has one layout, with WHOLE=1 all.
func TestStyle(t *testing.T) {
	for i, host := range machines.Names(t) {
		keep := machines.Whole(t, host, "keep")
		for _, layout := range expect.Sampled(i, machines.Layouts()) {
			r := machines.Whole(t, host, layout)
			r.Subject = report.Subject{
				VM:     "VM default/a-virtual-machine",
				Host:   host + ".txtar",
				Source: "virt-launcher.log, dump 12 of 12",
				Tool:   "hook-sidecar v1.0",
			}

			for width, most := range map[int]int{
				0: 100, 40: 80, 80: 80, 93: 93, 120: 120, 300: 140,
			} {
				checkLines(t, text(t, r, report.Style{Width: width}), most)
				checkLines(t, text(t, report.AsIs(keep, r), report.Style{Width: width}), most)
			}

			plain := text(t, r, report.Style{})
			coloured := text(t, r, report.Style{Colour: true})
			if got := colour.ReplaceAllString(coloured, ""); strings.ReplaceAll(got, " ",
				"") != strings.ReplaceAll(plain, " ", "") {
				t.Errorf("%s, %s: without its colours the text is not the plain one:\n%s", host,
					layout, got)
			}

			if !strings.Contains(coloured, "\x1b[1mHOST") {
				t.Errorf("%s, %s: no colours in the coloured text", host, layout)
			}
		}
	}
}

func checkLines(t *testing.T, text string, most int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > most || n != len(line) ||
			strings.TrimRight(line, " ") != line {
			t.Errorf("%d columns of %d, %d bytes: %q", n, most, len(line), line)
		}
	}
}

// On 80 columns a device has its number in every part, and on one side of the trees
// its whole name.
func TestNarrow(t *testing.T) {
	r := machines.Whole(t, machines.HGX, "mirror")
	narrow := text(t, r, report.Style{Width: 80})
	for _, want := range []string{"#1 GPU 1b:00.0 ua-gpu-gpu1 ", "#1 GPU 74:00.0\n"} {
		if !strings.Contains(narrow, want) {
			t.Errorf("no %q in\n%s", want, narrow)
		}
	}
}

// Long names are cut, so that the line holds; the device keeps its number, by
// which it is found in every part.
func TestLongAlias(t *testing.T) {
	long := "ua-hostdevice-" + strings.Repeat("very-long-name-", 10)
	r := machines.Report(t, machines.Sysfs(t, machines.HGX), machines.OneGPU(t, long), "numa")
	r.Details = []report.Section{report.SectionTrees}
	plain := short(t, r, report.Style{})
	for line := range strings.Lines(plain) {
		if len(line) > len("\n")+100 {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}

	if strings.Count(plain, "#0") != 3 {
		t.Errorf("the device's number is to be in both trees and the table:\n%s", plain)
	}
}

// Of a text of others nothing reaches a terminal that it obeys, and nothing that turns
// the direction of text.
func TestHostileText(t *testing.T) {
	r := machines.Report(t, machines.Sysfs(t, machines.HGX),
		machines.OneGPU(t, "ua-\"'><script>\n\t[\x1b[31m\u202e"), "numa")
	if got := *r.Devices[0].Alias; !strings.Contains(got, "<script>") ||
		!strings.Contains(got, "\u202e") {
		t.Fatalf("the alias did not arrive: %q", got)
	}

	if got := text(t, r, report.Style{}); strings.ContainsAny(got, "\x1b\t\u202e") {
		t.Errorf("a control character came through: %q", got)
	}
}
