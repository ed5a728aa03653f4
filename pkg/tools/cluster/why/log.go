package why

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/words/lazyregexp"
)

// AddLog adds a container's log, or what kubectl prints of events. Lines of a log are JSON, which a
// prefix of kubectl or of the container's runtime may precede, or what QEMU, a guest or a Go
// program in panic prints. Of several VMs' lines those of this VM count.
func (e *Evidence) AddLog(source, text string) {
	r := logReader{evidence: e, source: source, owner: unknown, isConsole: isConsole(source)}
	e.reading.addLines(text)
	for line := range strings.SplitSeq(text, "\n") {
		r.add(strings.TrimSuffix(line, "\r"))
	}

	if r.owner == unknown {
		r.settle(own)
	}

	if strings.Contains(text, dumped) && r.owner == own {
		if found, err := kubevirt.FindDomain([]byte(text), maxDomain); err == nil {
			e.domain = string(found.XML)
		}
	}
}

// dumped precedes the domain in virt-launcher's log (KubeVirt
// pkg/virt-launcher/virtwrap/util/libvirt_helper.go).
const dumped = "Base64 dump "

// maxDomain limits the domain in a log, as hooks limit what they read.
const maxDomain = 4 << 20

// isConsole reports whether a log is that of the guest's serial console (KubeVirt
// pkg/virt-controller/services/template.go, generateSerialConsoleLogContainer).
func isConsole(source string) bool { return strings.Contains(source, "container guest-console-log") }

// owner says whose the lines of a log are that name no VM.
type owner int

// The owners. Before a line names a VM it is not known.
const (
	unknown owner = iota
	own
	other
)

// logReader reads a log.
type logReader struct {
	evidence *Evidence
	source   string

	owner   owner
	pending []message // of an unknown owner
	stamp   string    // the time of the last line that has one
	broken  wrapped
	object  []string  // namespace and name of the object that kubectl describes
	table   *getTable // of VMs or VMIs, whose rows are read; nil outside one

	isConsole bool // the guest prints it
}

// add adds a line.
func (r *logReader) add(line string) {
	start := strings.Index(line, `{"`)
	if start >= 0 && isTalk(line[start:]) {
		r.evidence.hasText = r.evidence.hasText || r.owner == unknown
		return
	}

	var logged entryOfLog
	if start < 0 || !decode(line[start:], &logged) {
		r.addText(line)
		return
	}

	prefix := line[:start]
	if inner := logged; logged.Component == "sidecar-shim" && decode(logged.Msg, &inner) {
		logged = inner // a line of the hook's own log
	}

	m := message{
		source: r.source, isLog: true, at: r.time(cmp.Or(logged.Timestamp, logged.Time)),
		origin: logged.origin(), isLibvirts: logged.Subcomponent == libvirt,
		isQEMUs: logged.Subcomponent == "qemu",
		isError: slices.Contains([]string{"error", "panic", "fatal"},
			strings.ToLower(logged.Level)),
		text: strings.TrimSpace(logged.Msg),
	}

	// virt-launcher logs whatever QEMU prints at level info (KubeVirt
	// pkg/virt-launcher/virtwrap/util/libvirt_helper.go, LogQemuLogLine).
	m.isError = m.isError || m.isQEMUs && looksFailed(m.text) && !hasAny(m.text, quietQEMU)

	if detail := cmp.Or(logged.Reason, logged.Error); detail != "" {
		m.text += ": " + detail
	}

	if logged.isOfDevices(m.text) {
		m.stage = StageSchedule
	}

	m.passes = passedBy(logged.Msg)
	m.startsQEMU = strings.Contains(logged.Msg, ": starting up libvirt version: ")
	if f := madeDevice.FindStringSubmatch(logged.Msg); f != nil && m.origin == "virt-launcher" {
		m.made = f[1]
	}

	r.addMessage(m, r.ownerOf(prefix, logged))
}

// launcher is a pod's name in the prefix of a line.
var launcher = lazyregexp.New(launcherPrefix + `[a-z0-9.-]+`)

// ownerOf returns whose a line is: that of the pod that its prefix names, or of the VM that it
// names. Components of the cluster log about all VMs.
func (r *logReader) ownerOf(prefix string, logged entryOfLog) owner {
	is := func(isOwn bool) owner {
		if isOwn {
			return own
		}
		return other
	}

	namespace, name := logged.Namespace, logged.Name
	if before, after, hasVMI := strings.Cut(logged.VMI, "/"); hasVMI && name == "" {
		namespace, name = before, after
	}

	pod := launcher.FindString(prefix)
	switch {
	case name != "" && (logged.VMI != "" || strings.HasPrefix(logged.Component, "virt-launcher")):
		return r.settle(is(r.evidence.isOwn(logged.Kind, namespace, name)))
	case name != "" && logged.Kind != "":
		return is(r.evidence.isOwn(logged.Kind, namespace, name))
	case name != "": // of a VMI, or of a node or any other object
		return is(name == r.evidence.Name && r.evidence.isOwn("", namespace, name))
	case pod != "":
		return is(r.evidence.isOwn("Pod", "", pod))
	case strings.HasPrefix(logged.Component, "virt-") &&
		!strings.HasPrefix(logged.Component, "virt-launcher"):
		text := logged.Msg + " " + logged.Reason
		return is(r.evidence.isNamedIn(text) || logged.isOfDevices(text))
	}

	return unknown
}

// addMessage adds a message, if it is the VM's.
func (r *logReader) addMessage(m message, whose owner) {
	if whose == unknown {
		if isOfOther(r.evidence, m.text) {
			return
		}
		whose = r.owner
		r.evidence.hasText = r.evidence.hasText || whose == unknown
	}

	switch whose {
	case own:
		r.evidence.add(m)
	case unknown:
		r.pending = append(r.pending, m)
		if len(r.pending) == 1<<16 { // a long log that names no VM
			r.settle(own)
		}
	}
}

// settle says whose the lines are that name no VM. It adds those that were read, or leaves them
// out.
func (r *logReader) settle(whose owner) owner {
	if r.owner == unknown && whose == own {
		for _, m := range r.pending {
			r.evidence.add(m)
		}
	}

	r.owner, r.pending = whose, nil
	return whose
}

// domainName is the name of a domain in a message of libvirt about QEMU.
var domainName = lazyregexp.New(`\(vm='([^'_]+)_([^']+)'\)`)

// isOfOther reports whether libvirt says that a message is about another VM.
func isOfOther(e *Evidence, text string) bool {
	if !strings.Contains(text, "(vm='") {
		return false
	}
	found := domainName.FindStringSubmatch(text)
	return found != nil && !e.isVM(found[1], found[2])
}

// seenAgo is the age of an event, which may have happened several times.
const seenAgo = `(\d\w*|<\w+>)(?: \(x\d+ over \w+\))?`

// Lines of the tables of kubectl get events (Kubernetes pkg/printers/internalversion: age, type,
// reason, object, message; with -A the namespace before it) and of kubectl describe (Kubernetes
// staging/src/k8s.io/kubectl/pkg/describe: type, reason, age, from, message).
var (
	eventRow = lazyregexp.New(`^(?:(\S+)\s+)?` + seenAgo +
		`\s+(Normal|Warning)\s+(\S+)\s+([a-z]+)(?:\.[\w.]+)?/(\S+)\s+(.*)$`)
	eventLine = lazyregexp.New(`^\s+(Normal|Warning)\s+(\S+)\s+` + seenAgo +
		`\s+(\S+?)(?:, \S+)?\s+(.*)$`)
	header = lazyregexp.New(`^(Name|Namespace):\s+(\S+)$`)
)

// addText adds a line that is not JSON.
func (r *logReader) addText(line string) {
	if line == "" || r.addTable(line) || r.addEvent(line) || r.addHeader(line) ||
		r.object != nil && !r.isDescribed() {
		return
	}

	m := message{source: r.source, isLog: true, at: r.time(stamp.FindString(line))}
	m.setText(r.broken.join(r.evidence.index(), line))
	if r.isConsole {
		m.origin, m.stage = guests, StageGuest
	}

	whose := unknown
	if prefix := strings.TrimPrefix(line, "[pod/"); strings.HasPrefix(prefix, launcherPrefix) {
		whose = other
		if r.evidence.isOwn("Pod", "", launcher.FindString(prefix)) {
			whose = own
		}
	}

	r.addMessage(m, whose)
}

// addTable adds a line of a table of VMs or VMIs, and reports whether it is one. What an object says
// is more, and stays.
func (r *logReader) addTable(line string) bool {
	if strings.HasPrefix(line, "NAME") { // or NAMESPACE
		r.table = newGetTable(line)
		return r.table != nil
	}

	if r.table == nil {
		return false
	}

	cells, e := r.table.cells(line), r.evidence
	if _, isRow := age(cells["AGE"]); !isRow {
		r.table = nil
		return false
	}

	isOfVMI := r.table.kind == "VirtualMachineInstance"
	if isOfVMI && e.vmi != nil || !isOfVMI && e.vm != nil {
		return true
	}

	data, err := json.Marshal(r.table.object(cells))
	return err == nil && e.addObject(data, "")
}

// time returns the time of a line, that of the line before it if it has none.
func (r *logReader) time(stamp string) time.Time {
	if stamp != "" {
		r.stamp = stamp
	}
	at, _ := time.Parse(time.RFC3339, r.stamp)
	return at.UTC()
}

// setText sets the text of a line that is not JSON, and who prints it where the line says so.
func (m *message) setText(line string) {
	rest := m.setHost(line)
	m.text, m.isError, m.isBoot = line, isFailure(rest), isBoot(line)
	if isKernels(line) {
		m.origin, m.stage, m.at = nodes, StageNode, m.stamp().at
		m.isBoot = m.isBoot || strings.HasPrefix(rest, "Linux version ")
	}
}

// addEvent adds a line of a table of events, and reports whether it is one.
func (r *logReader) addEvent(line string) bool {
	if !strings.Contains(line, corev1.EventTypeNormal) &&
		!strings.Contains(line, corev1.EventTypeWarning) {
		return false // which is most, and takes less time than an expression
	}

	m := message{source: r.source, hasAge: true}
	if f := eventRow.FindStringSubmatch(line); f != nil {
		m.ago, m.hasAge = age(f[2])
		if r.evidence.isOwn(f[5], f[1], f[6]) {
			r.addRow(m, f[3], f[4], f[5], f[7])
		}
		return true
	}

	f := eventLine.FindStringSubmatch(line)
	if f == nil {
		return false
	}

	m.ago, m.hasAge = age(f[3])
	kind := "VirtualMachineInstance"
	if slices.Contains([]string{"kubelet", "default-scheduler", "multus"}, f[4]) {
		kind = "Pod"
	}

	if r.isDescribed() {
		r.addRow(m, f[1], f[2], kind, f[5])
	}

	return true
}

// addHeader reads the name or namespace of an object that kubectl describes, and reports
// whether the line has one.
func (r *logReader) addHeader(line string) bool {
	f := []string(nil)
	if line[0] == 'N' {
		f = header.FindStringSubmatch(line)
	}

	switch {
	case f == nil:
		return false
	case f[1] == "Name":
		r.object = []string{"", f[2]}
	case r.object != nil:
		r.object[0] = f[2]
	}

	return true
}

// addRow adds an event of a table.
func (r *logReader) addRow(m message, kind, reason, name, text string) {
	m.isError = kind == corev1.EventTypeWarning
	m.heading, m.text = reason, text
	r.evidence.hasText = true
	r.evidence.addReason(m, reason, name)
}

// isDescribed reports whether the object that kubectl describes is the VM's. It is, if the file
// does not say which it is.
func (r *logReader) isDescribed() bool {
	if r.object == nil {
		return true
	}

	namespace, name := r.object[0], r.object[1]
	return strings.HasPrefix(name, launcherPrefix) && r.evidence.isOwn("Pod", namespace, name) ||
		name == r.evidence.Name && r.evidence.isOwn("", namespace, name)
}
