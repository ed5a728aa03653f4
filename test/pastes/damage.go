package pastes

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Damage is what happens to a text on its way from a terminal into a thread.
type Damage func(string) string

// Harmless are damages after which everything can still be read, in any format.
var Harmless = map[string]Damage{
	"lines of Windows":                     Replaced("\n", "\r\n"),
	"UTF-16, little endian, of PowerShell": encoded(binary.LittleEndian, "\ufeff"),
	"UTF-16, big endian":                   encoded(binary.BigEndian, "\ufeff"),
	"UTF-16 without a mark":                encoded(binary.LittleEndian, ""),
	"UTF-8 with a mark":                    After("\ufeff"),
	"quoted in a mail":                     Before("> "),
	"quoted twice":                         Before("> > "),
	"after a banner and a prompt":          After("Welcome to Ubuntu\nme@vm:~$ program -v\n"),
	"in a block of Markdown":               around("It prints\n```txt\n", "```\nWhy?\n"),
	"before other output":                  around("", "\nme@vm:~$ uptime\n 09:40:05 up 2 days\n"),
	"with a terminal's colours":            Replaced("GPU0", "\x1b[4mGPU0\x1b[0m"),
	"without a newline at the end":         func(s string) string { return strings.TrimRight(s, "\n") },
}

// HarmlessToTables are damages after which a table of path types can still be read.
var HarmlessToTables = map[string]Damage{
	"tabs as spaces":                    Spaced,
	"tabs as one space":                 Replaced("\t", " "),
	"as a table of Markdown":            Markdown,
	"in the code of a program":          After("\t\t`"),
	"indented":                          Before("    "),
	"after a logger's time":             After("2026/01/01 00:00:00 node nvidia-smi topo -m\n"),
	"a title cut short":                 Replaced("NUMA Affinity", "NUMA"),
	"broken after 48 columns":           Halved,
	"broken before the affinities":      Replaced("\tCPU", "\nCPU", "\t0-", "\n0-"),
	"colours whose escapes are missing": Replaced("\tGPU0", "[4m\tGPU0", "GPU NUMA ID", "GPU NUMA ID[0m"),
}

// Replaced replaces pairs of strings, all at once.
func Replaced(oldnew ...string) Damage { return strings.NewReplacer(oldnew...).Replace }

// After puts something before the text.
func After(head string) Damage { return around(head, "") }

func around(head, tail string) Damage {
	return func(s string) string { return head + s + tail }
}

// Before puts something before each line.
func Before(each string) Damage {
	return func(s string) string {
		return each + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+each) + "\n"
	}
}

// CutAt leaves out what is from the nth occurrence of a string on, counted from 1.
func CutAt(n int, mark string) Damage {
	return func(s string) string { return s[:find(s, n, mark)] }
}

// From leaves out what is before a string.
func From(mark string) Damage {
	return func(s string) string { return s[find(s, 1, mark):] }
}

// find returns where a string is in a text for the nth time. A damage that does nothing is a mistake.
func find(s string, n int, mark string) int {
	at := -1
	for range n {
		next := strings.Index(s[at+1:], mark)
		if next < 0 {
			panic(fmt.Sprintf("%q is not %d times in the text", mark, n))
		}
		at += 1 + next
	}

	return at
}

// Lines keeps the lines that have one of several strings.
func Lines(marks ...string) Damage {
	return func(s string) string {
		var b strings.Builder
		for line := range strings.Lines(s) {
			for _, mark := range marks {
				if strings.Contains(line, mark) {
					b.WriteString(line)
					break
				}
			}
		}

		return b.String()
	}
}

// Interleaved has lines of two processes that print at once, the second of which begins after some
// lines of the first.
func Interleaved(first, second string, after int) string {
	a, b := strings.SplitAfter(first, "\n"), strings.SplitAfter(second, "\n")
	after = min(after, len(a))
	both := strings.Join(a[:after], "")
	for a = a[after:]; len(a)+len(b) > 0; {
		if len(b) > 0 {
			both, b = both+b[0], b[1:]
		}
		if len(a) > 0 {
			both, a = both+a[0], a[1:]
		}
	}

	return both
}

// Columns cuts each line, as a narrow page does.
func Columns(n int) Damage {
	return func(s string) string {
		return eachLine(Spaced(s), func(line string) string { return line[:min(n, len(line))] })
	}
}

// Halved breaks each long line of a table in two between words, as a terminal or a mail does.
func Halved(s string) string {
	return eachLine(Spaced(s), func(line string) string {
		at := strings.LastIndex(line[:min(len(line), 48)], "  ")
		if len(line) < 64 || at <= 0 {
			return line
		}
		return line[:at] + "\n" + line[at+2:]
	})
}

func eachLine(s string, change func(string) string) string {
	all := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, line := range all {
		all[i] = change(line)
	}
	return strings.Join(all, "\n") + "\n"
}

// Spaced has spaces in the place of tabs, as a terminal shows them.
func Spaced(s string) string {
	return eachLine(s, func(line string) string {
		var b strings.Builder
		for _, r := range line {
			if r != '\t' {
				b.WriteRune(r)
				continue
			}
			b.WriteString(strings.Repeat(" ", 8-b.Len()%8))
		}

		return b.String()
	})
}

// Glued loses all space within lines, as where a page's source is copied.
func Glued(s string) string {
	return strings.NewReplacer("\t", "", " X ", "X", "CPU Affinity", "CPU Affinity").Replace(s)
}

// Markdown makes a table of Markdown, whose second line separates the header. What is after the
// table stays, and so does a table with lines between its columns.
func Markdown(s string) string {
	table, rest, hasRest := strings.Cut(s, "\n\n")
	if !strings.Contains(table, "\t") {
		return s
	}

	table = Before("| ")(strings.ReplaceAll(table, "\t", " | "))
	head, rows, _ := strings.Cut(table, "\n")
	table = head + " |\n" + strings.Repeat("|---", strings.Count(head, "|")) + "|\n" + rows
	if hasRest {
		table += "\n" + rest
	}
	return table
}

// encoded writes UTF-16 after a mark.
func encoded(order binary.AppendByteOrder, mark string) Damage {
	return func(s string) string {
		var data []byte
		for _, unit := range utf16.Encode([]rune(mark + s)) {
			data = order.AppendUint16(data, unit)
		}

		return string(data)
	}
}
