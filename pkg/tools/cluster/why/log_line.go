package why

import (
	"encoding/json"
	"slices"
	"strings"

	"hook-sidecar/pkg/tools/cluster/provider"
)

// entryOfLog has the fields of a line of KubeVirt's log, and of this hook's.
type entryOfLog struct {
	Level, Msg, Reason, Error, Timestamp, Time, Component, Subcomponent, Kind, Name, Namespace string
	VMI                                                                                        string
}

// decode decodes the JSON object that a text begins with, if it is a line of a log.
func decode(text string, into *entryOfLog) bool {
	err := json.Unmarshal([]byte(text), into)
	if err != nil && !strings.HasSuffix(text, "}") {
		err = json.NewDecoder(strings.NewReader(text)).Decode(into)
	}
	return err == nil && into.Msg != ""
}

// isTalk reports whether a line of JSON has nothing that counts: most of a log is such lines, and
// to decode them takes most of the time.
func isTalk(line string) bool {
	const level = `"level":"`
	at := strings.Index(line, level) + len(level)
	if at < len(level) || at == len(line) {
		return false
	}

	isError := strings.ContainsAny(line[at:at+1], "eEfFpPwW")
	isMarked := func(mark string) bool { return strings.Contains(line, mark) }
	return !isError && !causeIndex().mayFind(line) && !slices.ContainsFunc(marks, isMarked)
}

// marks are in lines that say whose they are, or which stage is passed.
var marks = []string{
	`"name":`, `"vmi":`, "sidecar-shim", "Collected all", "Domain started", "Synced vmi",
	"starting up libvirt", "device created: ", `"subcomponent":"qemu"`,
}

// passedBy returns the stage of which virt-launcher says that it is passed (KubeVirt
// pkg/hooks/manager.go, pkg/virt-launcher/virtwrap/manager.go and cmd-server/server.go).
func passedBy(text string) Stage {
	switch text {
	case "Collected all requested hook sidecar sockets":
		return StageHook
	case "Domain started.", "Synced vmi":
		return StageStart
	}

	return ""
}

// origin returns the program that a line is of.
func (l entryOfLog) origin() string {
	switch {
	case strings.HasPrefix(l.Component, "virt-launcher"):
		return "virt-launcher"
	case l.Component == "" && l.VMI != "" || l.Component == "sidecar-shim":
		return "the hook"
	}
	return l.Component
}

// isOfDevices reports whether a line is virt-handler's about what it offers on its node, or about its
// certificate, which is about each VM that waits for it.
func (l entryOfLog) isOfDevices(text string) bool {
	isError := hasAnyPrefix(l.Level, "e", "p", "w")
	return isError && l.Component == "virt-handler" && l.Name == "" &&
		(provider.IsAboutOffers(text) || strings.Contains(text, "x509: "))
}

// quietQEMU are parts of lines that QEMU prints of devices that work: one without a reset, and a BAR
// that others cannot reach (QEMU hw/vfio/pci.c, hw/vfio/container.c).
var quietQEMU = []string{
	"no available reset mechanism", "qemu-kvm: vfio_container_dma_map(", "qemu-kvm: vfio_dma_map(",
}
