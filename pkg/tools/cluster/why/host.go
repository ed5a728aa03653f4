package why

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// stampOf is the time at which a line of a node's log was printed; zero if the line has none.
type stampOf struct {
	at    time.Time // with a time zone
	clock time.Time // without one, or since the boot: it compares with others of its source alone
}

// local are the forms of times without a time zone. The first has no year.
var local = []string{time.Stamp, "Jan _2 15:04:05.999999", "Jan _2 15:04:05 2006"}

// zoned are the forms of times with one.
var zoned = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999-0700"}

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

// recoveries are in lines of the node's kernel that say that a device works again (Linux
// drivers/pci/pci.c, pci_dev_wait and pci_reset_function; drivers/pci/pcie/err.c).
var recoveries = []string{": reset done", "device recovery successful"}

// isRecovered reports whether a line of the kernel says that the device that it names works again.
func isRecovered(line string) bool {
	_, after, isReady := strings.Cut(line, ": ready ")
	return hasAny(line, recoveries) || isReady && strings.Contains(after, "ms after ")
}

// isOnOtherNode reports whether a line names a host that is not the VM's node.
func (e *Evidence) isOnOtherNode(n entry) bool {
	if e.Node == "" || n.host == "" || n.host == "localhost" || isAddress(e.Node) {
		return false
	}

	names := []string{e.Node}
	for _, node := range e.nodes {
		if node.Name == e.Node {
			names = append(names, node.Labels["kubernetes.io/hostname"])
		}
	}

	return !slices.ContainsFunc(names, func(name string) bool {
		return strings.EqualFold(short(name), short(n.host))
	})
}

// short returns a host's name without its domain.
func short(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}

// isAddress reports whether a node's name is an IP address, which its log does not have.
func isAddress(name string) bool {
	return strings.Trim(name, "0123456789.") == "" || strings.Contains(name, ":")
}

// isSaid reports whether a program of a node says itself that a line is an error, or names the VM: what
// only looks so is in the journals of healthy nodes.
func (n entry) isSaid(e *Evidence) bool {
	line := n.plainLine()
	rest := (&message{}).setHost(line)
	if n.program == "kubelet" || strings.HasPrefix(n.program, "container") || n.program == "crio" {
		return (&logReader{evidence: e}).names(line)
	}
	return isErrorText(rest) || hasAnyPrefix(level(rest), "e", "f", "panic", "crit")
}

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
