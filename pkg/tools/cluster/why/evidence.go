package why

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/pkg/kubevirt"
)

// Evidence has what objects and logs say about one VM. Without a namespace it is that VM in any.
type Evidence struct {
	Report                                // without what Diagnose finds
	Labels, Annotations map[string]string // of its VMI, or of the VM's template
	Logs                []Log             // of its pods

	table       *index // of causes.yaml
	entries     map[entryKey]entry
	added       int                  // number of entries, by which they are in order
	read        []*Read              // of each file
	hasText     bool                 // a file has lines that name no VM
	found       map[string]bool      // the VMs that the files name, as NAMESPACE/NAME
	names       map[string]bool      // the VMs and VMIs whose objects there are; nil if nobody asks
	nodes, pods []object             // of all VMs
	related     map[string][]related // objects by their kinds
	warnings    []warning            // about objects that are not the VM's
	networks    []nodeNetworks       // that failed
	claims      bool                 // the VM waits for claims
	slices      map[string]bool      // nodes of which a DRA driver offers devices; nil if none were read
	vm, vmi     *kubeVirtState       // nil if it was not read
	qemu        *Line                // of libvirt that started QEMU last; nil if no log says so
	permitted   *permitted           // by the KubeVirt object; nil if it was not read
	domain      string               // XML of the domain that was last defined; "" if it was not read
	variables   string               // of compute, a line each; "" if they were not read
	numbers     map[string]string    // of virtual functions of NICs, by their addresses
	made        []string             // addresses of devices that virt-launcher put into the domain
	topology    string               // lines of the node's kernel and its sysfs: where devices are
	uses        []use                // of devices by vfio-pci
	podOf       map[string]string    // UIDs of pods by the processes that the kernel ended
	hardware    hardware             // which the VM has
	drains      bool                 // the API server or virt-handler refused to evict the VM
	overBudget  bool                 // the API server refused it for a budget
	splitLocks  map[string]bool      // hosts of which a guest takes split locks; "" if not named
	plugFails   bool                 // a virtual function could not be plugged into the VM that runs
	reading     *Read                // the file that is being read; nil for the cluster
}

// kubeVirtState is a VM or a VMI as it was read.
type kubeVirtState struct {
	kubevirt.Object
	running
	conditions []corev1.PodCondition
	isDeleted  bool
	finalizers []string
}

// Log names the log of a container, or that from before its restart.
type Log struct {
	Namespace, Pod, Container string
	Before                    bool
}

// entry is a line of a message that names a cause, is an error, or says that a stage is passed.
type entry struct {
	message
	line   int    // of the message's text
	cause  *Cause // nil if it names none
	passed Stage  // "" if it says nothing of the kind
	number int    // in the order of reading
}

// entryKey says which entries replace each other: of equal ones the last counts.
type entryKey struct {
	source, subject string
	cause           *Cause
	passed          Stage
	form            string // of an error that names no cause: without its numbers
	function        string // of the device that a line of the node's kernel is about
}

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

// harmless are parts of errors in logs of VMs that are well: KubeVirt's tests allow them
// (kubevirt/kubevirt tests/vmlogchecker/allowlist.go), and of /dev/kvm the owner changes after
// libvirt looks for it (kubevirt/kubevirt issue 16369).
var harmless = []string{
	"/dev/kvm: ", "/dev/vhost-vsock", "dmidecode", "At least one cgroup controller is required",
	" bus connection: ", "DBus system bus", "Cannot probe for supported suspend types",
	"Failed to open config space file",
	"uest agent", "QEMU agent", "guest info failed", "End of file from agent socket",
	"agent=remoteDispatch", "agent=qemuDispatch",
	"Unable to read from monitor", "Unable to write to monitor", "Missing monitor reply object",
	"End of file while reading data", "client socket is closed", "Connection to libvirt lost",
	"Cannot write data: Broken pipe", "Error updating cache",
	"migration statistics are available only", "backend-storage-meta/migrated",
	"Failed to get block info", "Break reap loop", "Error detecting pid", "virt-serial0-log",
	"failed to read libvirt logs", "failed to read qemu log directory", "domain notify event",
	"notify domain event", ": warning: ", "the object has been modified",
}

// add adds a message, one line per line of its text: KubeVirt's messages quote libvirt's, and
// those QEMU's.
func (e *Evidence) add(m message) {
	if e.entries == nil {
		e.entries = map[entryKey]entry{}
	}

	if m.startsQEMU && (e.qemu == nil || m.at.After(e.qemu.Time)) {
		e.qemu = &Line{Source: m.source, Time: m.at}
	}

	m.read = e.reading
	if m.made != "" {
		e.made = append(e.made, m.made)
	}

	if m.origin == nodes && isTopology(m.text) {
		e.topology += m.text + "\n"
	}

	if m.passes != "" {
		e.keep(entry{message: m, passed: m.passes})
	}

	if m.isBoot {
		e.keep(entry{message: m, passed: cmp.Or(m.stage, StageNode)})
		return
	}

	if m.origin == nodes {
		e.addProcess(m.text)
		e.addSplitLock(m)
	}

	for i, line := range lines(m.text) {
		if line = strings.TrimSpace(line); line == "" || e.isAboutDrain(line) {
			continue
		}

		if m.isError && hasAny(line, plugFails) {
			m.isPlug, m.stage, e.plugFails = true, StageGuest, true
		}

		named := device(line)
		cause := e.index().findOf(m.matched(line), m.canBe)
		if cause != nil && cause.Name == driverRefuses && named == "" {
			cause = nil // of a part of the board, which healthy guests lack, too
		}

		isFailure := m.isError && !(m.isLog && isHarmless(line))
		isNamed := cause != nil || isFailure
		if isNamed && m.isLog && m.origin != guests && e.isAboutOtherPod(line) {
			e.reading.count(cause != nil)
			e.reading.countOther()
			continue
		}

		if m.isLog && cause == nil && !isFailure && isHint(line) {
			e.keep(entry{message: m, line: i})
		}

		if isNamed {
			e.reading.count(cause != nil)
			n := entry{message: m, line: i, cause: cause}
			if cause != nil && cause.Stage == StageGuest || m.origin == nodes {
				n.message = m.about(named)
			}
			e.keep(n)
		}

		if named != "" {
			e.addDevice(m, i, line, named)
		}
	}
}

// addDevice adds what a line says of the device that it names: who uses it, and that it works.
func (e *Evidence) addDevice(m message, i int, line, named string) {
	if m.origin == nodes && isUse(line) {
		e.uses = append(e.uses, use{named, m.stamp()})
	}

	if m.origin == nodes && isRecovered(line) {
		e.keep(entry{message: m.about(named), line: i, passed: StageNode})
	}

	if m.isLog && isWorking(line) {
		e.keep(entry{message: m.about(named), line: i, passed: StageGuest})
	}
}

// driverRefuses is the cause that a driver of any device names.
const driverRefuses = "driver-refuses"

// canBe reports whether the message can be about a cause: a guest says of its own kernel and
// containers what the node's say, and what keeps a pod from ending did not keep it from starting.
func (m message) canBe(c Cause) bool {
	switch m.stage {
	case StageGuest:
		return c.Stage == StageGuest || c.Stage == StageStart || c.Stage == StageHook
	case StageStop:
		return c.Stage == StageStop
	}

	return true
}

// about returns the message as one about a device; "" for none in particular.
func (m message) about(device string) message {
	m.subject = device
	return m
}

// isAboutDrain notes that a line says that the VM cannot be evicted: that is no failure of the VM, nor
// is that it migrates away first (KubeVirt pkg/virt-handler/vm.go, and pod-eviction-admitter.go of
// pkg/virt-api/webhooks/validating-webhook/admitters).
func (e *Evidence) isAboutDrain(line string) bool {
	isAbout := strings.Contains(line, "virt-launcher-eviction-interceptor.kubevirt.io") ||
		strings.Contains(line, "EvictionStrategy is set but vmi is not migratable")
	isEvacuated := hasAny(line, []string{"Eviction triggered evacuation", "Evacuation in progress"})
	e.drains = e.drains || isAbout && !isEvacuated
	isOver := strings.Contains(line, overBudget)
	e.overBudget = e.overBudget || isOver && (&logReader{evidence: e}).names(line)
	return isAbout || isOver
}

// device returns the PCI device that a line names, without its function; "" if it names none. Each
// line of a log is asked, so no expression does it.
func device(line string) string {
	for colon, c := range []byte(line) {
		if c == ':' && isAddressAt(line, colon) {
			return strings.ToLower(line[colon-len("0000") : colon+len(":00:00")])
		}
	}
	return ""
}

// isAddressAt reports whether a colon of a line ends the domain of an address such as 0000:c1:00.0.
// The domain may have eight digits, as the kernel or nvidia-smi prints it, and the function may be
// missing, as NVIDIA's driver prints it.
func isAddressAt(line string, colon int) bool {
	start, end := colon-len("0000"), colon+len(":00:00")
	if start < 0 || end > len(line) || line[colon+3] != ':' || !isHex(line[start:colon]) ||
		!isHex(line[colon+1:colon+3]) || !isHex(line[colon+4:end]) {
		return false
	}

	before := line[:start]
	if upper := len(before) - len("0000"); upper >= 0 && isHex(before[upper:]) {
		before = before[:upper]
	}

	isWhole := before == "" || !isWordByte(before[len(before)-1])
	return isWhole && (end == len(line) || !isWordByte(line[end]))
}

// isHex reports whether a text has hexadecimal digits alone.
func isHex(text string) bool {
	for _, c := range []byte(text) {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}

// isWordByte reports whether a byte is of a word.
func isWordByte(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
}

// isWorking reports whether a line, which names a device, says that a driver of the guest has it:
// Linux's DRM drivers say so (drivers/gpu/drm/drm_drv.c), and nvidia-smi has it in its table.
func isWorking(line string) bool {
	return strings.Contains(line, "[drm] Initialized ") && strings.Contains(line, " for ") ||
		strings.HasPrefix(line, "|") && strings.HasSuffix(line, "|") &&
			!strings.Contains(line, "ERR!")
}

// index returns the table that names causes.
func (e *Evidence) index() *index {
	if e.table == nil {
		e.table = causeIndex()
	}
	return e.table
}

// isHarmless reports whether healthy VMs have an error, too.
func isHarmless(line string) bool {
	return slices.ContainsFunc(harmless, func(part string) bool {
		return strings.Contains(line, part)
	})
}

// matched returns what is compared with the table of a line of the message.
func (m message) matched(line string) string {
	if m.heading == "" {
		return line
	}
	return m.heading + ": " + line
}

// keep keeps an entry, unless there is a later one that says the same.
func (e *Evidence) keep(n entry) {
	e.added++
	n.number = e.added
	key := entryKey{source: n.source, subject: n.subject, cause: n.cause, passed: n.passed}
	switch {
	case n.heading == failedScheduling:
		key.cause = nil // each says all that the nodes lack then
	case n.cause == nil && n.passed == "":
		key.form = form(lines(n.text)[n.line])
	}

	if n.origin == nodes && n.subject != "" && n.passed == "" { // of VFs in one slot
		key.function = pathAddress.FindString(strings.ToLower(n.plainLine()))
	}

	old, isKnown := e.entries[key]
	if isKnown && n.cause != nil && n.isLog && n.program == "" && n.isOfBurst(old) {
		old.number = n.number // the first says more than what follows from it
		e.entries[key] = old
		return
	}

	isOlder := n.hasAge && n.ago > old.ago || n.at.Before(old.at)
	if !isKnown || !isOlder {
		e.entries[key] = n
	}
}

// form returns a text with each number as 0.
func form(text string) string {
	b := make([]byte, 0, len(text))
	for i := range len(text) {
		isDigit := '0' <= text[i] && text[i] <= '9'
		switch {
		case !isDigit:
			b = append(b, text[i])
		case len(b) == 0 || b[len(b)-1] != '0':
			b = append(b, '0')
		}
	}

	return string(b)
}

// inOrder returns the entries, the oldest first. The ages of a table count from the last
// time that is known: a user collects a VM's events and logs together. Entries
// without a time come first.
func (e *Evidence) inOrder() []entry {
	all := slices.Collect(maps.Values(e.entries))
	var last time.Time
	for _, n := range all {
		if n.at.After(last) {
			last = n.at
		}
	}

	if last.IsZero() {
		last = time.Unix(0, 0)
	}

	for i, n := range all {
		if n.hasAge {
			all[i].at, all[i].isDerived = last.Add(-n.ago), true
		}
	}

	slices.SortFunc(all, func(x, y entry) int {
		return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.number, y.number))
	})

	return all
}

// isOwn reports whether an object is the VM that is asked for, its VMI or its pod. It notes
// which VMs there are.
func (e *Evidence) isOwn(kind, namespace, name string) bool {
	switch strings.ToLower(kind) {
	case "", "vm", "vmi", "virtualmachine", "virtualmachineinstance":
		return e.isVM(namespace, name)
	case "pod", "po", "pods":
		vm, isLauncher := strings.CutPrefix(name, launcherPrefix)
		if e.isLauncher(name) {
			vm = e.Name
		} else if end := strings.LastIndexByte(vm, '-'); end > 0 {
			vm = vm[:end]
		}
		return isLauncher && e.isVM(namespace, vm)
	}

	return false
}

// isVM reports whether a VM is the one that is asked for.
func (e *Evidence) isVM(namespace, name string) bool {
	if e.found == nil {
		e.found = map[string]bool{}
	}
	e.found[strings.TrimPrefix(namespace+"/"+name, "/")] = true
	return name == e.Name && e.isNamespace(namespace)
}

func (e *Evidence) isNamespace(namespace string) bool {
	return e.Namespace == "" || namespace == "" || e.Namespace == namespace
}

// isLauncher reports whether a pod's name is that of the VM: KubeVirt lets the API server
// generate its end, after at most 58 characters (k8s.io/apiserver
// pkg/storage/names/generate.go). A pod that is gone has left its events.
func (e *Evidence) isLauncher(pod string) bool {
	base := launcherPrefix + e.Name + "-"
	end, found := strings.CutPrefix(pod, base[:min(len(base), 58)])
	return found && !strings.Contains(end, "-")
}

// launcherPrefix begins the names of virt-launcher's pods.
const launcherPrefix = "virt-launcher-"
