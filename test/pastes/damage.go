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
	"broken after 60 columns":           Broken(60),
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
	return func(s string) string {
		at := 0
		for range n {
			next := strings.Index(s[at:], mark)
			if next < 0 {
				panic(fmt.Sprintf("%q is not %d times in the text", mark, n))
			}
			at += next + 1
		}

		return s[:at-1]
	}
}

// From leaves out what is before a string.
func From(mark string) Damage {
	return func(s string) string { return s[strings.Index(s, mark):] }
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

// Columns cuts each line, as a narrow page does.
func Columns(n int) Damage {
	return func(s string) string {
		return eachLine(Spaced(s), func(line string) string { return line[:min(n, len(line))] })
	}
}

// Broken breaks each line between words before a column, as a terminal or a mail does.
func Broken(n int) Damage {
	return func(s string) string {
		return eachLine(Spaced(s), func(line string) string {
			text := ""
			for len(line) > n {
				at := strings.LastIndex(line[:n], "  ")
				if at <= 0 {
					break
				}
				text, line = text+line[:at]+"\n", line[at+2:]
			}

			return text + line
		})
	}
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

// Markdown makes a table of Markdown, whose second line separates the header.
func Markdown(s string) string {
	table := Before("| ")(strings.ReplaceAll(s, "\t", " | "))
	head, rest, _ := strings.Cut(table, "\n")
	return head + " |\n" + strings.Repeat("|---", strings.Count(head, "|")) + "|\n" + rest
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
