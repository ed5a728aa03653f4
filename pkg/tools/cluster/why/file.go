package why

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/tools/cluster/archive"
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
