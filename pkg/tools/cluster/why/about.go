package why

import (
	"cmp"
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// The names in messages: of a node as facts have it, of a PCI device, of a process that holds one, of
// a DRA driver and of a resource.
var (
	namedNode     = lazyregexp.New(`\bnode ([a-z0-9][a-z0-9.-]*[a-z0-9])`)
	namedDevice   = lazyregexp.New(`\b(?:[0-9a-f]{4}:)[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b`)
	namedProcess  = lazyregexp.New(`\bpid[ =]+(\d+)(?: \(([\w.-]+)\))?`)
	namedDriver   = lazyregexp.New(`\bdriver(?: name)? ([\w-]+(?:\.[\w-]+)+)`)
	namedResource = lazyregexp.New(`Insufficient ([\w.-]+/[\w.-]*\w)`)
	namedVolume   = lazyregexp.New(`\b(?:DataVolume|PersistentVolumeClaim) [a-z0-9.-]+/[a-z0-9.-]*[a-z0-9]`)
	namedClaim    = lazyregexp.New(`\bclaim ([a-z0-9][a-z0-9.-]*[a-z0-9]) \(volume`)
	namedMissing  = lazyregexp.New(`\b([a-z][a-z-]*(?:\.[a-z0-9.-]+)?) "([^"]+)" not found`)
	namedGroup    = lazyregexp.New(`(?:\bgroup |/dev/vfio/)(\d+)\b`)
)

// about returns what the evidence names of the cause that a line names, with what each is.
func (e *Evidence) about(n entry, line Line) []string {
	all := []string{}
	add := func(what string, names ...string) {
		if text := strings.TrimSpace(what + strings.Join(names, "")); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}

	if n.cause.Stage == StageCreate && line.Speaker != "" {
		add(strings.TrimPrefix(line.Speaker, "the "))
	}

	if f := namedDevice.FindString(line.Text); f != "" {
		add("device ", f)
	} else if f := e.deviceOfAlias(line.Text); f != "" {
		add("device ", f)
	}

	if f := namedGroup.FindStringSubmatch(line.Text); f != nil {
		add("IOMMU group ", f[1])
	}

	if f := namedProcess.FindStringSubmatch(line.Text); f != nil && n.stage != StageGuest {
		add("process ", f[1], " "[:min(1, len(f[2]))], f[2])
	}

	if f := namedDriver.FindStringSubmatch(line.Text); f != nil {
		add("driver ", f[1])
	}

	for _, f := range namedResource.FindAllStringSubmatch(line.Text, 2) {
		add(f[1])
	}

	if f := namedMissing.FindStringSubmatch(line.Text); f != nil && n.cause.Name == "object-missing" {
		add(f[1], " ", f[2])
	}

	for _, f := range namedVolume.FindAllString(line.Text, 2) {
		add(f)
	}

	for _, f := range namedClaim.FindAllStringSubmatch(line.Text, 3) {
		add("claim ", f[1])
	}

	pod := namedPod.FindStringSubmatch(line.Text)
	if pod == nil && n.stage != StageGuest {
		pod = namedPod.FindStringSubmatch(line.Source)
	}

	if pod != nil {
		add("pod ", pod[1])
	}

	isFact := n.source == factSource || strings.HasPrefix(line.Text, providerFails)
	if f := namedNode.FindStringSubmatch(line.Text); f != nil && isFact {
		add("node ", f[1])
	} else if node := cmp.Or(e.Node, e.nodeOfLog(n)); node != "" {
		add("node ", node)
	}

	return all
}

// hostdev is a passthrough device of the domain, with its source and its alias, which is its id for
// QEMU (libvirt docs/formatdomain).
var (
	hostdev = lazyregexp.New(`(?s)<hostdev\b.*?</hostdev>`)
	alias   = lazyregexp.New(`<alias name=['"]([^'"]+)['"]`)
)

// deviceOfAlias returns the address of the device of the domain whose id a message of QEMU or libvirt
// names in place of its address; "" if it names none.
func (e *Evidence) deviceOfAlias(text string) string {
	isBetween := func(c rune) bool {
		return c != '-' && c != '_' && !('a' <= c && c <= 'z') && !('A' <= c && c <= 'Z') &&
			!('0' <= c && c <= '9')
	}

	words := strings.FieldsFunc(text, isBetween)
	for _, device := range hostdev.FindAllString(e.domain, -1) {
		name := alias.FindStringSubmatch(device)
		source := domainSource.FindStringSubmatch(device)
		if name != nil && source != nil && slices.Contains(words, name[1]) {
			return domainAddress(source[1])
		}
	}

	return ""
}
