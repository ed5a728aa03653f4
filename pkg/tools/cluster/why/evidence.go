package why

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
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

// Log names the log of a container, or that from before its restart.
type Log struct {
	Namespace, Pod, Container string
	Before                    bool
}

// index returns the table that names causes.
func (e *Evidence) index() *index {
	if e.table == nil {
		e.table = causeIndex()
	}
	return e.table
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

// isNamedIn reports whether a text names the VM or its pod.
func (e *Evidence) isNamedIn(text string) bool {
	const nameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-._/"
	isBetween := func(c rune) bool { return !strings.ContainsRune(nameCharacters, c) }
	for _, word := range strings.FieldsFunc(text, isBetween) {
		namespace, name, isFull := strings.Cut(word, "/")
		if !isFull {
			namespace, name, isFull = strings.Cut(word, "_")
		}

		if isFull && name == e.Name && e.isNamespace(namespace) || word == e.Name ||
			e.isLauncher(word) {
			return true
		}
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
