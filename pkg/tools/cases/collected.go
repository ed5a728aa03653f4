package cases

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/cluster/redact"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words/gzipped"
)

// Collected is what an archive has of a running VM.
type Collected struct {
	types.NamespacedName
	Node     string
	Domain   []byte   // as libvirt ran it
	VMI      []byte   // JSON: metadata and spec
	Host     []byte   // a snapshot
	Environ  []byte   // the variables of device plugins
	HookArgs []string // of the container that has this hook
	Removed  []string // what collect removed from the domain, for people
}

// OfArchive returns the VMs whose domains an archive of kubectl hostdev collect has. It refuses one
// if collect removed something of it that the hook reads.
func OfArchive(name string, data []byte) ([]Collected, error) {
	data, err := gzipped.Decompress(data, maxInput)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}

	in, err := archive.Parse(name, data)
	if err == nil && in.Collected == nil {
		err = reasons.WithHint("kubectl hostdev collect VM makes one",
			fmt.Errorf("read %s: not an archive of kubectl hostdev collect", name))
	}
	if err != nil {
		return nil, err
	}

	var all []Collected
	for _, f := range in.Files {
		if path.Base(f.Name) != archive.DomainName {
			continue
		}

		vm, err := collected(in, f)
		if err != nil {
			return nil, fmt.Errorf("read %s: %s: %w", name, f.Name, err)
		}

		if slices.ContainsFunc(all, func(other Collected) bool {
			return other.NamespacedName == vm.NamespacedName
		}) {
			return nil, fmt.Errorf("read %s: two pods have a domain of VM %s: collect it again when "+
				"no migration runs", name, vm)
		}
		all = append(all, vm)
	}

	if len(all) == 0 {
		return nil, reasons.WithHint("collect it while the VM runs",
			fmt.Errorf("read %s: no domain in it%s", name, unread(in)))
	}

	return all, nil
}

// unread says why an archive has no domain, as far as it says so.
func unread(in archive.Input) string {
	for _, gap := range in.Collected.Unread {
		if path.Base(gap.What) == archive.DomainName || strings.HasSuffix(gap.What, archive.DomainName) {
			return ": " + gap.Why
		}
	}
	return ""
}

// collected returns the VM of a domain in an archive.
func collected(in archive.Input, file archive.File) (vm Collected, err error) {
	d, err := domain.Parse(file.Data)
	if err != nil {
		return vm, fmt.Errorf("parse domain: %w", err)
	}

	named, isKubeVirts := kubevirt.OfDomain(d.Name)
	vm.Namespace, vm.Name = named.Namespace, named.Name
	if !isKubeVirts {
		return vm, fmt.Errorf("the domain %q is not of KubeVirt", d.Name)
	}

	vm.Domain = file.Data

	// A case must plan as the hook did for the VM, so nothing that the hook reads may be missing.
	if needed := removedFrom(file.Data); needed != "" {
		return vm, fmt.Errorf("collect removed a text of %s, which the hook reads: the case would "+
			"not be that of the VM", needed)
	}

	for _, removal := range in.Collected.Removed {
		if removal.File == file.Name {
			vm.Removed = append(vm.Removed, fmt.Sprintf("%d %s", removal.Count, removal.What))
		}
	}

	// The files of a pod are in one directory. Its snapshot is named after the container in which
	// it was read, which is the hook's if it has one.
	pod := path.Base(path.Dir(file.Name))
	container := ""
	for _, f := range in.Files {
		switch namespace, snapshotOf, isSnapshot := f.Snapshot(); {
		case isSnapshot && namespace == vm.Namespace && snapshotOf == pod:
			vm.Host, container = f.Data, strings.TrimSuffix(path.Base(f.Name), Ending)
		case f.Name == archive.OfPod(vm.Namespace, pod, archive.VariablesName):
			vm.Environ = variablesOf(f.Data)
		}
	}

	if vm.Host == nil {
		return vm, errors.New("the archive has no snapshot of its node")
	}

	return vm, vm.readObjects(in, pod, container)
}

// readObjects reads the VMI and the pod.
func (vm *Collected) readObjects(in archive.Input, pod, container string) error {
	var instance struct {
		Metadata struct {
			UID         string
			Annotations map[string]string
		}
		Spec json.RawMessage
	}
	if err := object(in, "virtualmachineinstances", vm.NamespacedName, &instance); err != nil {
		return err
	}

	type started struct {
		Name          string
		Command, Args []string
	}
	var p struct {
		Spec struct {
			NodeName                   string
			Containers, InitContainers []started
		}
	}
	name := types.NamespacedName{Namespace: vm.Namespace, Name: pod}
	if err := object(in, "pods", name, &p); err != nil {
		return err
	}

	vm.Node = p.Spec.NodeName
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		if c.Name == container {
			vm.HookArgs = slices.Concat(c.Command, c.Args)
		}
	}

	// Status and managed fields are long, and the hook reads a migration's state alone of them.
	data, err := json.Marshal(map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
		"metadata": map[string]any{
			"namespace": vm.Namespace, "name": vm.Name, "uid": instance.Metadata.UID,
			"annotations": instance.Metadata.Annotations,
		},
		"spec": instance.Spec,
	})
	if err != nil {
		return err
	}

	vm.VMI = data
	vmi, err := kubevirt.ParseVMI(data)
	if err != nil {
		return err
	}

	for name, value := range vmi.Annotations {
		if strings.HasPrefix(name, policy.AnnotationPrefix) && strings.Contains(value, redact.Mark) {
			return fmt.Errorf("collect removed the value of annotation %s, which the hook reads", name)
		}
	}

	return nil
}

// object reads an object of an archive's list.
func object(in archive.Input, resource string, name types.NamespacedName, into any) error {
	for _, f := range in.Files {
		if f.Name != archive.ObjectsOf(resource) {
			continue
		}

		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(f.Data, &list); err != nil {
			return fmt.Errorf("parse %s: %w", f.Name, err)
		}

		for _, item := range list.Items {
			var head struct{ Metadata types.NamespacedName }
			if json.Unmarshal(item, &head) == nil && head.Metadata == name {
				return json.Unmarshal(item, into)
			}
		}
	}

	return fmt.Errorf("the archive has no object %s of %s", name, resource)
}

// variablesOf returns the variables of device plugins of an environment.
func variablesOf(environ []byte) []byte {
	var kept []string
	for line := range strings.Lines(string(environ)) {
		if strings.HasPrefix(line, env.PCIResourcePrefix) ||
			strings.HasPrefix(line, env.MDEVResourcePrefix) {
			kept = append(kept, line)
		}
	}
	return []byte(strings.Join(kept, ""))
}

// unreadElements are elements of a domain that the hook does not read, where secrets may be
// (libvirt docs/formatdomain.rst). Of QEMU's arguments it reads those with a device, a link or a
// window, which collect keeps.
var unreadElements = []string{
	"title", "description", "metadata", "os/cmdline", "os/initarg", "os/initargs", "os/initenv",
	"sysinfo", "commandline", "memoryBacking", "seclabel", "launchSecurity",
}

// readDevices are the devices that the hook reads.
var readDevices = []string{"hostdev", "controller", "iommu"}

// ownEntry stands for an element entry of fw_cfg that the hook wrote.
const ownEntry = "the hook's entry of fw_cfg"

// removedFrom returns an element that the hook reads, from which collect removed a text; "" without
// one.
func removedFrom(xmlText []byte) string {
	var open []string
	decoder := xml.NewDecoder(bytes.NewReader(xmlText))
	for {
		token, err := decoder.Token()
		if err != nil { // io.EOF: the domain was parsed before
			return ""
		}

		has := false
		switch t := token.(type) {
		case xml.StartElement:
			open = append(open, t.Name.Local)
			has = slices.ContainsFunc(t.Attr, func(a xml.Attr) bool {
				return strings.Contains(a.Value, redact.Mark)
			})
			if t.Name.Local == "entry" && hasOwnName(t) {
				open[len(open)-1] = ownEntry
			}
		case xml.CharData:
			has = bytes.Contains(t, []byte(redact.Mark))
		case xml.EndElement:
			open = open[:len(open)-1]
		}

		switch {
		case !has || !isRead(open):
		case open[len(open)-1] == ownEntry:
			return ownEntry
		default:
			return "<" + open[len(open)-1] + ">"
		}
	}
}

// hasOwnName reports whether an entry of fw_cfg is the hook's.
func hasOwnName(t xml.StartElement) bool {
	return slices.ContainsFunc(t.Attr, func(a xml.Attr) bool {
		return a.Name.Local == "name" && strings.HasPrefix(a.Value, domain.EntryPrefix)
	})
}

// isRead reports whether the hook reads an element, which is named by those above it, too.
func isRead(open []string) bool {
	if len(open) < 2 || open[len(open)-1] == ownEntry {
		return true
	}
	if open[1] == "devices" {
		return len(open) > 2 && slices.Contains(readDevices, open[2])
	}

	above := strings.Join(open[1:], "/") + "/"
	return !slices.ContainsFunc(unreadElements, func(name string) bool {
		return strings.HasPrefix(above, name+"/")
	})
}

// New returns the case of a VM as a txtar file, with the policy of its hook. The host is in a file
// of its own, since the VMs of a node share it: its name is relative to the case.
func (vm Collected) New(source policy.Source, hostFile string) ([]byte, error) {
	if strings.Contains(strings.Join(source.Keep, " "), redact.Mark) {
		return nil, errors.New("collect removed the aliases of --keep, which the hook reads")
	}

	var flags []string
	for _, key := range policy.Keys() {
		if value, isGiven := source.Flags[key]; isGiven {
			flags = append(flags, string(key)+"="+value)
		}
	}

	locked := topology.Map(source.Locked, func(key policy.Key) string { return string(key) })
	settings := "host: " + hostFile + "\n"
	for _, line := range []struct {
		key    string
		values []string
	}{{"flags", flags}, {"lock", locked}, {"keep", source.Keep}} {
		if len(line.values) > 0 {
			settings += line.key + ": " + strings.Join(line.values, " ") + "\n"
		}
	}

	vmi, err := yaml.JSONToYAML(vm.VMI)
	if err != nil {
		return nil, err
	}

	comment := fmt.Sprintf("VM %s on node %s, with the domain that libvirt ran.\n", vm, vm.Node)
	if len(vm.Removed) > 0 {
		comment += fmt.Sprintf("kubectl hostdev collect removed from the domain, and the hook does not "+
			"read: %s.\n", strings.Join(vm.Removed, ", "))
	}

	made := &txtar.Archive{Comment: []byte(comment + "\n"), Files: []txtar.File{
		{Name: settingsSection, Data: []byte(settings)},
		{Name: domainSection, Data: vm.Domain},
		{Name: vmiYAMLSection, Data: vmi},
	}}
	if len(vm.Environ) > 0 {
		made.Files = append(made.Files, txtar.File{Name: envSection, Data: vm.Environ})
	}

	// A line of the domain or the VMI may look like a marker.
	data := txtar.Format(made)
	if read := txtar.Parse(data); len(read.Files) != len(made.Files) {
		return nil, fmt.Errorf("make a case of VM %s: a line of the form -- name -- is in it", vm)
	}

	return data, nil
}
