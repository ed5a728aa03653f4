package main

import (
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/cli"
)

// writeDomain writes a domain, or its changes.
func writeDomain(p *cli.Program, output string, showDiff bool, before, after []byte) error {
	if !showDiff {
		return p.Write(output, after)
	}

	if err := p.Write(output,
		colouredDiff(diff.Diff("a/domain.xml", before, "b/domain.xml", after),
			p.Style(output))); err != nil {
		return err
	}

	return cli.Found(string(before) != string(after))
}

// failureOf returns the error of a call. A refusal gets its exit status and a hint.
func failureOf(result plan.Result) error {
	if !result.IsRefused() {
		return result.Err
	}

	hint := "without --strict they stay where they are"
	if result.Policy.Origins[policy.KeyStrict] == policy.OriginAnnotation {
		hint = "without the annotation " + policy.AnnotationPrefix + string(policy.KeyStrict) +
			" they stay where they are (try --strict=false)"
	}

	return cli.Refused("explain shows every device; "+hint, result.Err)
}

// diffColours are git diff's, by the first character of a line.
var diffColours = map[byte]report.Colour{'@': report.Cyan, '-': report.Red, '+': report.Green}

// colouredDiff returns a unified diff in the colours of git diff.
func colouredDiff(diff []byte, style report.Style) []byte {
	if !style.Colour {
		return diff
	}

	lines := strings.Split(string(diff), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = style.Paint(diffColours[line[0]], line)
		}
	}

	return []byte(strings.Join(lines, "\n"))
}
