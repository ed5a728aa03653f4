package why

import (
	"cmp"
	"strings"
)

// addFact adds a fact about a stage.
func (e *Evidence) addFact(stage Stage, text string) {
	e.add(message{source: factSource, stage: stage, isState: true, text: text})
}

// factSource is the source of facts.
const factSource = "objects that were read"

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

// isAboutDrain notes that a line says that the VM cannot be evicted: that is no failure of the VM, nor
// is that it migrates away first (KubeVirt pkg/virt-handler/vm.go, and pod-eviction-admitter.go of
// pkg/virt-api/webhooks/validating-webhook/admitters).
func (e *Evidence) isAboutDrain(line string) bool {
	isAbout := strings.Contains(line, "virt-launcher-eviction-interceptor.kubevirt.io") ||
		strings.Contains(line, "EvictionStrategy is set but vmi is not migratable")
	isEvacuated := hasAny(line, []string{"Eviction triggered evacuation", "Evacuation in progress"})
	e.drains = e.drains || isAbout && !isEvacuated
	isOver := strings.Contains(line, overBudget)
	e.overBudget = e.overBudget || isOver && e.isNamedIn(line)
	return isAbout || isOver
}

// overBudget is the API server's word for an eviction that a budget refuses (Kubernetes
// pkg/registry/core/pod/storage/eviction.go).
const overBudget = "violate the pod's disruption budget"

// plugFails are in what virt-handler says if it cannot give a VM that runs its virtual functions
// back, as after a migration (KubeVirt pkg/virt-handler/vm.go, hotplugSriovInterfacesCommand, and
// pkg/virt-launcher/virtwrap/manager.go, hotPlugHostDevices).
var plugFails = []string{"failed to hot-plug SR-IOV interfaces", "failed to hot-plug host-devices"}

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

// isRecovered reports whether a line of the kernel says that the device that it names works again.
func isRecovered(line string) bool {
	_, after, isReady := strings.Cut(line, ": ready ")
	return hasAny(line, recoveries) || isReady && strings.Contains(after, "ms after ")
}

// recoveries are in lines of the node's kernel that say that a device works again (Linux
// drivers/pci/pci.c, pci_dev_wait and pci_reset_function; drivers/pci/pcie/err.c).
var recoveries = []string{": reset done", "device recovery successful"}

// isWorking reports whether a line, which names a device, says that a driver of the guest has it:
// Linux's DRM drivers say so (drivers/gpu/drm/drm_drv.c), and nvidia-smi has it in its table.
func isWorking(line string) bool {
	return strings.Contains(line, "[drm] Initialized ") && strings.Contains(line, " for ") ||
		strings.HasPrefix(line, "|") && strings.HasSuffix(line, "|") &&
			!strings.Contains(line, "ERR!")
}

// about returns the message as one about a device; "" for none in particular.
func (m message) about(device string) message {
	m.subject = device
	return m
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
		switch {
		case !isDigit(text[i]):
			b = append(b, text[i])
		case len(b) == 0 || b[len(b)-1] != '0':
			b = append(b, '0')
		}
	}

	return string(b)
}
