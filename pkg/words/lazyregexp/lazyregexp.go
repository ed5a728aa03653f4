// Package lazyregexp has regular expressions that are compiled when they are first used. Compiled
// at the start of the program, those of all readers took three quarters of the memory and of the
// time of its initialization, also in a sidecar, which uses none of them.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression with the methods of regexp.Regexp that are needed. It is safe for
// concurrent use.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns the expression of a pattern in the syntax of package regexp. Its first use panics if
// the pattern is invalid. In the program of a test New itself does, so that a package with an
// invalid pattern passes no test.
func New(pattern string) Regexp {
	r := Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })}
	if isTest {
		r.compiled()
	}
	return r
}

// isTest is true in a program that "go test" has built. testing.Testing would link that package
// into every program.
var isTest = len(os.Args) > 0 && strings.HasSuffix(strings.TrimSuffix(os.Args[0], ".exe"), ".test")

func (r Regexp) MatchString(s string) bool      { return r.compiled().MatchString(s) }
func (r Regexp) FindString(s string) string     { return r.compiled().FindString(s) }
func (r Regexp) FindStringIndex(s string) []int { return r.compiled().FindStringIndex(s) }

func (r Regexp) FindStringSubmatch(s string) []string {
	return r.compiled().FindStringSubmatch(s)
}

func (r Regexp) FindStringSubmatchIndex(s string) []int {
	return r.compiled().FindStringSubmatchIndex(s)
}

func (r Regexp) FindAllString(s string, n int) []string {
	return r.compiled().FindAllString(s, n)
}

func (r Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

func (r Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

func (r Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}

func (r Regexp) ReplaceAllString(s, with string) string {
	return r.compiled().ReplaceAllString(s, with)
}

func (r Regexp) ReplaceAllStringFunc(s string, with func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, with)
}

func (r Regexp) ReplaceAllFunc(s []byte, with func([]byte) []byte) []byte {
	return r.compiled().ReplaceAllFunc(s, with)
}

// QuoteMeta returns the pattern of a text, for a part of a pattern.
func QuoteMeta(text string) string { return regexp.QuoteMeta(text) }
