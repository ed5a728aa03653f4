package why

import (
	"cmp"
	"strings"
	"time"
)

// message is a text about the VM.
type message struct {
	source string // who reports it
	// the reason of an event, the container's name of a state; matched before each line
	heading    string
	subject    string        // the container or image that it is about; "" for the VM or its pod
	stage      Stage         // of the start that it is about; "" where only its cause says
	at         time.Time     // zero where the source has none
	ago        time.Duration // before the time at which a table was printed, where that has ages
	hasAge     bool
	isError    bool
	origin     string // the program that prints it; "" if that is not known
	isLibvirts bool   // libvirt prints it, in virt-launcher's log
	isQEMUs    bool   // QEMU prints it, in virt-launcher's log
	host       string // that the line of a node's log names; "" if it names none
	program    string // of that host that prints it, but for its kernel; "" if that is not known
	printed    string // when, as that line says; "" if it does not
	read       *Read  // the file that has it; nil for the cluster
	made       string // address of a device that virt-launcher has put into the domain
	isLog      bool   // a line of a log, of which healthy VMs have errors, too
	isState    bool   // an object's state when it was read, which no event ends
	text       string
	passes     Stage // stage that the message says is passed
	startsQEMU bool  // libvirt starts QEMU, whose log begins so (libvirt src/qemu/qemu_process.c)
	isPlug     bool  // the VM runs, and a virtual function could not be plugged into it
	isDerived  bool  // its time is that of the line before it
	isBoot     bool  // the system whose log it is was booted
}

// matched returns what is compared with the table of a line of the message.
func (m message) matched(line string) string {
	if m.heading == "" {
		return line
	}
	return m.heading + ": " + line
}

// entry is a line of a message that names a cause, is an error, or says that a stage is passed.
type entry struct {
	message
	line   int    // of the message's text
	cause  *Cause // nil if it names none
	passed Stage  // "" if it says nothing of the kind
	number int    // in the order of reading
}

// plainLine returns the line of an entry as its source printed it, with secrets.
func (n entry) plainLine() string {
	if all := lines(n.text); n.line < len(all) {
		return strings.TrimSpace(all[n.line])
	}
	return ""
}

// kind returns the kind of an entry's source: events, conditions and states of objects, and each
// log or file.
func (n entry) kind() string {
	kind, _, isObject := strings.Cut(n.source, " ")
	if isObject && n.origin == "" && !n.isLog {
		return kind
	}
	return n.source + n.origin
}

// isBefore reports whether an entry comes before another one where all are in order.
func (n entry) isBefore(other entry) bool {
	return cmp.Or(n.at.Compare(other.at), cmp.Compare(n.number, other.number)) < 0
}

// entryKey says which entries replace each other: of equal ones the last counts.
type entryKey struct {
	source, subject string
	cause           *Cause
	passed          Stage
	form            string // of an error that names no cause: without its numbers
	function        string // of the device that a line of the node's kernel is about
}
