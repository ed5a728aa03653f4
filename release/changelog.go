package main

import (
	"fmt"
	"regexp"
	"strings"
)

// section is what CHANGELOG.md says of a tag: below a heading as in
// `## 1.2.3 - 2026-01-02`, up to the next heading of that kind.
func section(log, tag string) (string, error) {
	version := strings.TrimPrefix(tag, "v")
	heading := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(version) + ` - \d{4}-\d{2}-\d{2}$`)
	found := heading.FindStringIndex(log)
	if found == nil {
		return "", fmt.Errorf("CHANGELOG.md has no heading `## %s - ` with a date behind it", version)
	}
	text, _, _ := strings.Cut(log[found[1]:], "\n## ")
	text = strings.TrimSpace(text)
	if text == "" {
		return "", fmt.Errorf("CHANGELOG.md says nothing of %s", version)
	}
	return text + "\n", nil
}
