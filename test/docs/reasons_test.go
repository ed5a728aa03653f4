package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/test/expect"
)

// The paragraphs of docs/reasons.md by which a section is told apart.
const (
	remedyMark = "Remedy: "
	seeMark    = "To see it: "
)

var codeHeading = regexp.MustCompile("^### `([a-z0-9-]+)`$")

// reasonsPage returns docs/reasons.md with the paragraphs that come from the code: what a reason
// means, in italics, and each remedy. The rest stays as a person wrote it.
func reasonsPage(t *testing.T) string {
	t.Helper()
	var page []string
	var code reasons.Code
	for _, paragraph := range strings.Split(read(t, "docs/reasons.md"), "\n\n") {
		heading := codeHeading.FindStringSubmatch(paragraph)
		switch {
		case heading != nil:
			code = reasons.Code(heading[1])
			page = append(page, paragraph)
			page = append(page, meaning(code)...)

		case isFromCode(paragraph):

		case strings.HasPrefix(paragraph, seeMark):
			page = append(page, remedy(code)...)
			page = append(page, paragraph)

		default:
			page = append(page, paragraph)
		}
	}

	return strings.Join(page, "\n\n")
}

// isFromCode reports whether a paragraph of docs/reasons.md comes from the code.
func isFromCode(paragraph string) bool {
	return strings.HasPrefix(paragraph, "*") || strings.HasPrefix(paragraph, remedyMark)
}

// meaning returns the paragraph that says what a reason means; none for a warning.
func meaning(code reasons.Code) []string {
	reason := reasons.Reason(code)
	if !slices.Contains(reasons.Reasons(), reason) {
		return nil
	}
	return []string{"*" + sentence(reason.Meaning()) + "*"}
}

// remedy returns the paragraph with the remedy of a code; none for a reason without one.
func remedy(code reasons.Code) []string {
	text := findings.Remedy(code)
	if reason := reasons.Reason(code); slices.Contains(reasons.Reasons(), reason) {
		text = reason.Remedy()
	}

	if text == "" {
		return nil
	}
	return []string{remedyMark + strings.ReplaceAll(text, "<", "&lt;") + "."}
}

// codesIn returns the codes that have a section under a heading of docs/reasons.md.
func codesIn(t *testing.T, heading string) []reasons.Code {
	t.Helper()
	_, part, found := strings.Cut(read(t, "docs/reasons.md"), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/reasons.md has no heading %s", heading)
	}

	part, _, _ = strings.Cut(part, "\n## ")
	var codes []reasons.Code
	for _, line := range strings.Split(part, "\n") {
		if match := codeHeading.FindStringSubmatch(line); match != nil {
			codes = append(codes, reasons.Code(match[1]))
		}
	}

	return codes
}

// TestReasonsHaveSections: docs/reasons.md has each reason once, in the order of the table, and
// each section says something and how a user sees it.
func TestReasonsHaveSections(t *testing.T) {
	var want []reasons.Code
	for _, reason := range reasons.Reasons() {
		want = append(want, reasons.Code(reason))
	}
	expect.Same(t, want, codesIn(t, "Reasons"), "reasons and their sections differ (-table +page)")

	sections := strings.Split(read(t, "docs/reasons.md"), "\n### ")[1:]
	for _, section := range sections {
		paragraphs := strings.Split(section, "\n\n")
		isText := func(p string) bool {
			return !strings.HasPrefix(p, remedyMark) && !strings.HasPrefix(p, seeMark)
		}

		if !strings.Contains(section, "\n\n"+seeMark) ||
			!slices.ContainsFunc(paragraphs[1:], isText) {
			t.Errorf("docs/reasons.md, %s: no text, or not how to see it", paragraphs[0])
		}
	}
}

// TestChecksHaveSections: docs/doctor.md has each check once, in doctor's order, and each section
// says what the check asks and the remedy.
func TestChecksHaveSections(t *testing.T) {
	var want, got []string
	for _, check := range slices.Concat(doctor.Checks(), doctor.InstallationChecks()) {
		want = append(want, "`"+check.Name+"`")
	}

	for _, section := range strings.Split(read(t, "docs/doctor.md"), "\n## ")[1:] {
		paragraphs := strings.Split(strings.TrimSpace(section), "\n\n")
		got = append(got, paragraphs[0])
		if len(paragraphs) < 3 ||
			!strings.HasPrefix(paragraphs[len(paragraphs)-1], remedyMark) {
			t.Errorf("docs/doctor.md, %s: no question, or no remedy", paragraphs[0])
		}
	}

	expect.Same(t, want, got, "checks and their sections differ (-checks +page)")
}
