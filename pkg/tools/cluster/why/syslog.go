package why

import (
	"strconv"
	"strings"
	"time"

	"hook-sidecar/pkg/words/lazyregexp"
)

// setHost sets what the beginning of a line says that dmesg, journalctl or syslog printed: when, and
// but for dmesg on which host and by which program. It returns the rest of the line. (systemd
// src/shared/logs-show.c; RFC 3164, 4.1; the time also as rsyslog writes it; util-linux
// sys-utils/dmesg.c.) Most lines are of neither, and none is matched by an expression.
func (m *message) setHost(line string) (rest string) {
	text := line
	if strings.HasPrefix(text, "<") { // the priority, as dmesg -r prints it
		text = text[strings.IndexByte(text, '>')+1:]
	}

	if strings.HasPrefix(text, "[") {
		at, after, isCut := strings.Cut(text[1:], "] ")
		const letters = "abcdefghijklmnopqrstuvwxyzADFJMNOSTW" // of days and months
		isTime := strings.Trim(at, " .:0123456789"+letters) == ""
		if !isCut || !isTime || !strings.ContainsAny(at, "0123456789") {
			return line
		}

		m.printed = strings.TrimSpace(at)
		return after
	}

	size, isISO := stampSize(text)
	if size == 0 || size >= len(text) || text[size] != ' ' {
		return line
	}

	host, after, _ := strings.Cut(text[size+1:], " ")
	program, after, isProgram := strings.Cut(after, ": ")
	name, _, hasProcess := strings.Cut(program, "[")
	isOfHost := isProgram && !strings.Contains(host, ":") && !strings.Contains(program, " ") &&
		(!isISO || hasProcess || program == "kernel") // else a level and a part of a program may be it
	if !isOfHost {
		return line
	}

	m.printed, m.host = text[:size], host
	if name != "kernel" {
		m.program = name
	}

	return after
}

// stampSize returns the size of the time that a line begins with, as syslog or RFC 3339 has it; 0 if
// it begins with none.
func stampSize(line string) (size int, isISO bool) {
	const syslog = len("Jan _2 15:04:05")
	switch {
	case len(line) <= syslog:
		return 0, false
	case line[4] == '-' && line[7] == '-' && line[10] == 'T':
		return max(0, strings.IndexByte(line, ' ')), true
	case line[3] != ' ' || line[6] != ' ' || line[9] != ':' || line[12] != ':':
		return 0, false
	}

	size = syslog
	for size < len(line) && (line[size] == '.' || isDigit(line[size])) {
		size++
	}

	return size, false
}

// isKernels reports whether a line is one of a kernel's log. dmesg prints it after the seconds
// since the boot or, with -T, a date; most lines need no expression.
func isKernels(line string) bool {
	if strings.HasPrefix(line, "<") { // the priority, as dmesg -r prints it
		_, line, _ = strings.Cut(line, ">")
	}

	if rest, isDmesgs := strings.CutPrefix(line, "["); isDmesgs {
		at, _, isCut := strings.Cut(rest, "] ")
		isSeconds := strings.Trim(at, " 0123456789") == "."
		return isCut && (isSeconds || len(at) == len(time.ANSIC) && !parseStamp(at).clock.IsZero())
	}

	return strings.Contains(line[:min(len(line), 80)], " kernel: ") && kernelLine.MatchString(line)
}

// kernelLine matches the beginning of a line of a kernel's log, as journald and syslog print it.
var kernelLine = lazyregexp.New(`^\S+ +\d* *[\d:.T+-]* ?\S+ kernel: `)

// isBoot reports whether a line is one that journalctl prints between two boots (systemd
// src/shared/logs-show.c); it was "-- Reboot --" before version 252.
func isBoot(line string) bool {
	return strings.HasPrefix(line, "-- Boot ") || strings.HasPrefix(line, "-- Reboot --")
}

// stampOf is the time at which a line of a node's log was printed; zero if the line has none.
type stampOf struct {
	at    time.Time // with a time zone
	clock time.Time // without one, or since the boot: it compares with others of its source alone
}

// stamp returns when the line of a node's log was printed.
func (m message) stamp() stampOf { return parseStamp(m.printed) }

// parseStamp parses the time of a line of a node's log; dmesg -T has the day of the week before it.
func parseStamp(text string) (s stampOf) {
	if _, after, hasDay := strings.Cut(text, " "); hasDay && len(text) == len("Mon Jan _2 15:04:05 2006") {
		text = after
	}

	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		s.clock = time.Unix(0, int64(seconds*float64(time.Second))).UTC()
		return s
	}

	for _, form := range zoned {
		if at, err := time.Parse(form, text); err == nil {
			return stampOf{at: at.UTC(), clock: at.UTC()}
		}
	}

	for _, form := range local {
		if at, err := time.Parse(form, text); err == nil {
			return stampOf{clock: at}
		}
	}

	return s
}

// local are the forms of times without a time zone. The first has no year.
var local = []string{time.Stamp, "Jan _2 15:04:05.999999", "Jan _2 15:04:05 2006"}

// zoned are the forms of times with one.
var zoned = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999-0700"}

// isSurelyBefore reports whether a line of a node was printed before an entry, in whatever time zone
// and year it was.
func (n entry) isSurelyBefore(other entry) bool {
	const widest = 12 * time.Hour // of the time zones west of Greenwich
	stamp := n.stamp()
	clock := stamp.clock
	switch {
	case other.at.IsZero():
		return false
	case !stamp.at.IsZero():
		return stamp.at.Before(other.at)
	case clock.IsZero() || clock.Year() == 1970: // since the boot
		return false
	case clock.Year() == 0:
		clock = clock.AddDate(other.at.Year(), 0, 0)
		if clock.Sub(other.at) > 180*24*time.Hour {
			clock = clock.AddDate(-1, 0, 0)
		}
	}

	return clock.Add(widest).Before(other.at)
}

// stamp is the time of RFC 3339 that a line of a program begins with.
var stamp = lazyregexp.New(`^(?:\d{4}-\d\d-\d\dT\S+)`)
