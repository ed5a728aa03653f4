package why

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/words/lazyregexp"
)

// AddGuestFile adds what a program in the guest printed, such as dmesg or nvidia-smi.
func (e *Evidence) AddGuestFile(name string, data []byte) error {
	e.Files = append(e.Files, name)
	text, isText := archive.Decode(data)
	if !isText || len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("read %s: it is empty or not text", name)
	}

	e.reading = e.newRead(name)
	e.reading.IsGuests = true
	e.reading.addLines(string(text))
	var broken wrapped
	for line := range strings.SplitSeq(string(text), "\n") {
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			continue
		}

		m := message{source: "guest, " + name, isLog: true}
		m.setText(broken.join(e.index(), line))
		m.origin, m.stage = guests, StageGuest
		e.add(m)
	}

	e.reading = nil
	return nil
}

// AddFile adds a user's file: objects or a log, or several in a tar archive.
func (e *Evidence) AddFile(name string, data []byte) error {
	in, err := archive.Parse(name, data)
	if err != nil {
		e.Files = append(e.Files, name)
		return err
	}

	e.AddInput(in)
	return nil
}

// AddInput adds what a user named. Of what collect wrote it adds the objects and the logs: those of
// other VMs' pods are about these, and what is missing is what could not be read.
func (e *Evidence) AddInput(in archive.Input) {
	e.Files = append(e.Files, in.Name)
	e.reading = e.newRead(in.Name)
	defer func() { e.reading = nil }()
	for _, f := range in.Files {
		namespace, pod, container, isLog := f.Log()
		if in.Collected != nil && e.addOfPod(f) {
			continue
		}

		switch {
		case !in.IsPacked:
			e.Add(in.Name, f.Data)
		case in.Collected == nil || f.IsObjects():
			e.Add(in.Name+": "+f.Name, f.Data)
		case isLog && (!strings.HasPrefix(pod, launcherPrefix) || e.isOwn("Pod", namespace, pod)):
			e.AddLog(fmt.Sprintf("log of container %s of pod %s", container, pod), string(f.Data))
		}
	}

	for _, gap := range in.Skipped {
		e.Unread = append(e.Unread, gap.Why)
	}

	if in.Collected != nil {
		for _, gap := range in.Collected.Unread {
			e.Unread = append(e.Unread, gap.Why)
		}
	}
}

// newRead begins to count what a file has.
func (e *Evidence) newRead(name string) *Read {
	e.read = append(e.read, &Read{Name: name})
	return e.read[len(e.read)-1]
}

// addOfPod adds what an archive has of a pod of the VM, beside its logs: the domain, the variables and
// the node's devices. It reports whether a file has it.
func (e *Evidence) addOfPod(f archive.File) bool {
	namespace, pod, name, isOfPod := f.OfPod()
	switch {
	case !isOfPod || !e.isOwn("Pod", namespace, pod):
		return false
	case name == archive.DomainName:
		e.domain, e.hasText = string(f.Data), true
		e.reading.countObject()
	case name == archive.VariablesName:
		e.variables += string(f.Data)
	case strings.HasSuffix(name, ".txtar"):
		e.topology += linksOf(string(f.Data))
	default:
		return false
	}

	return true
}

// linksOf returns the names of a snapshot's files that say where devices are.
func linksOf(snapshot string) string {
	var b strings.Builder
	for line := range strings.Lines(snapshot) {
		_, to, isLink := strings.Cut(line, " -> ")
		switch {
		case isLink && hasAnyPrefix(line, "-- bus/pci/devices/", "-- bus/mdev/devices/"):
			b.WriteString(to)
		case isLink && strings.Contains(line, "/iommu_group -> "):
			b.WriteString(line)
		}
	}

	return b.String()
}

// Add adds a file: objects as kubectl prints them, in YAML or JSON, Lists or several documents, or
// the VM's domain. What is neither is a log.
func (e *Evidence) Add(source string, data []byte) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("<domain")) {
		e.domain, e.hasText = string(data), true
		e.reading.countObject()
		return
	}
	if e.addObject(data, "") {
		return // JSON, which is faster to read as that
	}

	for _, document := range archive.Documents(data) {
		e.addDocument(source, document)
	}
}

// addDocument adds a document of objects, or a log, which does not begin with one.
func (e *Evidence) addDocument(source string, document []byte) {
	isFirst := true
	for object := range archive.ObjectsIn(document) {
		switch isObject := e.addYAML(string(object)); {
		case !isObject && e.names != nil: // only objects are asked for
			return
		case !isObject && isFirst:
			e.AddLog(source, string(document))
			return
		case !isObject:
			e.AddLog(source, string(object))
		}

		isFirst = false
	}
}

// addYAML adds an object in YAML, or in JSON.
func (e *Evidence) addYAML(document string) bool {
	if e.addObject([]byte(document), "") {
		return true
	}

	const enough = 64 << 10 // kubectl prints the kind of a List after its items
	if !hasKind.MatchString(document[:min(len(document), enough)]) &&
		!strings.Contains(document, "\nkind:") {
		return false
	}

	data, err := yaml.YAMLToJSON([]byte(document))
	return err == nil && e.addObject(data, "")
}

// hasKind matches the beginning of an object in YAML or JSON. A log has none, and to parse it as
// YAML would take much longer.
var hasKind = lazyregexp.New(`(?m)^(?:kind:|\{ *\w+:|- )`)

// VMsOf returns the VMs of a user's files, as NAMESPACE/NAME: those that an archive was collected for
// and, of other files, those whose objects are there, or the domain.
func VMsOf(inputs []archive.Input) (all []string) {
	for _, in := range inputs {
		if in.Collected != nil {
			all = append(all, in.Collected.VMs...)
			continue
		}

		names := &Evidence{names: map[string]bool{}}
		for _, f := range in.Files {
			if bytes.HasPrefix(bytes.TrimSpace(f.Data), []byte("<domain")) {
				if name := domainTitle.FindStringSubmatch(string(f.Data)); name != nil {
					all = append(all, name[1]+"/"+name[2])
				}
				continue
			}
			names.Add(in.Name, f.Data)
		}

		all = append(all, slices.Collect(maps.Keys(names.names))...)
	}

	return all
}

// domainTitle is the name of a domain (KubeVirt pkg/virt-launcher/virtwrap/api/defaults.go,
// VMINamespaceKeyFunc in pkg/controller).
var domainTitle = lazyregexp.New(`<name>([a-z0-9-]+)_([a-z0-9.-]+)</name>`)

// Missing returns an error if the files that were added are about other VMs alone, about several of
// this name, or about none.
func (e *Evidence) Missing() error {
	var same []string
	all := slices.Sorted(maps.Keys(e.found))
	for _, vm := range all {
		namespace, name, isFull := strings.Cut(vm, "/")
		if !isFull {
			namespace, name = "", vm
		}

		if name == e.Name && e.isNamespace(namespace) && (isFull || len(all) == 1) {
			same = append(same, vm)
		}
	}

	asked := strings.TrimPrefix(e.Namespace+"/"+e.Name, "/")
	switch {
	case len(same) > 1:
		return fmt.Errorf("the files have several VMs of this name: %s", strings.Join(same, ", "))
	case len(same) == 1 || slices.Contains(all, e.Name) || len(all) == 0 && e.hasText:
		return nil
	case len(all) == 0:
		return fmt.Errorf("the files have no VM %s, and no line of a log", asked)
	}

	const shown = 10
	more := ""
	if len(all) > shown {
		more, all = fmt.Sprintf(" and %d more", len(all)-shown), all[:shown]
	}

	return fmt.Errorf("the files have no VM %s; they have %s%s", asked, strings.Join(all, ", "),
		more)
}
