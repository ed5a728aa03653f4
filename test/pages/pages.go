// Package pages reads the project's pages: their code spans and blocks, and the commands in them.
package pages

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"hook-sidecar/test/expect"
)

// Code is a code span or block of a page.
type Code struct {
	Where    string // docs/explain.md:12
	Language string // of a block: sh, yaml, ""
	IsBlock  bool
	Text     string
}

// Read returns the code of every page under the project's root.
func Read(t *testing.T, root string) []Code {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	expect.NoError(t, err)
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	expect.NoError(t, err)

	var all []Code
	for _, name := range slices.Concat(top, names) {
		page, err := filepath.Rel(root, name)
		expect.NoError(t, err)
		all = append(all, Find(page, string(expect.File(t, name)))...)
	}

	return all
}

var (
	fence = regexp.MustCompile("^\\s*```(\\w*)$")
	span  = regexp.MustCompile("``(.+?)``|`([^`]+)`")

	// A command in prose, such as in a remedy, ends before the first word in lower case.
	inProse = regexp.MustCompile(`\b(?:hook-sidecar|kubectl hostdev) ` +
		`(?:call|cloud-init|doctor|explain|fit|guest|mutate|serve|snapshot|why)\b` +
		`(?: (?:--?[a-z][\w-]*(?:=[\w/.-]+)?|[A-Z]{2,}|[\w/-]+\.(?:xml|json|txtar|txt|yaml)))*`)
)

// Find returns the code spans and blocks of one page in order, and commands in its prose as spans.
func Find(page, text string) []Code {
	var all []Code
	var block *Code
	number := 0

	for line := range strings.Lines(text) {
		number++
		where := fmt.Sprintf("%s:%d", page, number)
		mark := fence.FindStringSubmatch(strings.TrimRight(line, "\n"))

		switch {
		case mark != nil && block == nil:
			block = &Code{Where: where, Language: mark[1], IsBlock: true}
		case mark != nil:
			all = append(all, *block)
			block = nil

		case block != nil:
			block.Text += line
		default:
			for _, found := range span.FindAllStringSubmatch(line, -1) {
				all = append(all, Code{Where: where, Text: found[1] + found[2]})
			}
			for _, found := range inProse.FindAllString(span.ReplaceAllString(line, "`"), -1) {
				all = append(all, Code{Where: where, Text: found})
			}
		}
	}

	return all
}

// Command is a command with its arguments, as a shell passes them. An expansion stays as
// it is written: $VM.
type Command struct {
	Where   string
	IsBlock bool // from a block: it is whole
	Words   []string
}

// sidecarArgs are the arguments of a hook sidecar in the annotation that requests it, in JSON, or
// in JSON in a string.
var sidecarArgs = regexp.MustCompile(`\\?"args\\?": (\[[^]]*\])`)

// Commands returns the commands in code that a shell runs: blocks of sh, and spans and other
// blocks that begin with one of these programs. Code that a shell cannot parse is an error. The
// arguments of a hook sidecar are a command, too.
func Commands(t *testing.T, all []Code, programs ...string) []Command {
	t.Helper()
	var found []Command

	for _, code := range all {
		for _, list := range sidecarArgs.FindAllStringSubmatch(code.Text, -1) {
			var args []string
			expect.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(list[1], `\"`, `"`)), &args))
			found = append(found, Command{
				code.Where, true, append([]string{"hook-sidecar"}, args...),
			})
		}

		if !isShell(code, programs) {
			continue
		}

		file, err := syntax.NewParser().Parse(strings.NewReader(code.Text), code.Where)
		if err != nil {
			t.Errorf("%s is not shell: %v", code.Where, err)
			continue
		}

		syntax.Walk(file, func(node syntax.Node) bool {
			if call, isCall := node.(*syntax.CallExpr); isCall && len(call.Args) > 0 {
				found = append(found, Command{code.Where, code.IsBlock, words(call.Args)})
			}
			return true
		})
	}

	return found
}

func isShell(code Code, programs []string) bool {
	if code.Language != "" {
		return code.Language == "sh"
	}

	text := strings.TrimSpace(code.Text)
	return slices.ContainsFunc(programs, func(program string) bool {
		return strings.HasPrefix(text, program+" ")
	})
}

// words returns the words of a call without quotes.
func words(args []*syntax.Word) []string {
	var all []string
	for _, arg := range args {
		var b strings.Builder
		for _, part := range arg.Parts {
			write(&b, part)
		}
		all = append(all, b.String())
	}

	return all
}

// write appends what a part of a word says.
func write(b *strings.Builder, part syntax.WordPart) {
	switch part := part.(type) {
	case *syntax.Lit:
		b.WriteString(strings.ReplaceAll(part.Value, `\`, ""))
	case *syntax.SglQuoted:
		b.WriteString(part.Value)
	case *syntax.DblQuoted:
		for _, inner := range part.Parts {
			write(b, inner)
		}

	case *syntax.ParamExp:
		b.WriteString("$" + part.Param.Value)
	default: // $(…) and others, whose commands are found by themselves
		b.WriteString("$()")
	}
}
