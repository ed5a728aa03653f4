package why

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/kubevirt"
)

// networkInfo is the annotation of a VM's pod in which virt-launcher finds the virtual functions
// of the VM's interfaces, by their names (KubeVirt pkg/network/deviceinfo, downwardapi).
const networkInfo = "kubevirt.io/network-info"

// addMissing adds what the domain lacks as a fact.
func (e *Evidence) addMissing() {
	if names := e.missing(); len(names) > 0 {
		e.addFact(StageGuest, fmt.Sprintf("the domain on node %s has no %s, which the VMI asks for",
			e.Node, strings.Join(names, " and no ")))
	}
}

// missing returns the devices that the VMI asks for and the domain of the VM that runs lacks, by
// the domain where it was read, else by the status, which has the interfaces. A VM that has
// migrated got its virtual functions back after it, unless virt-handler says that this failed.
func (e *Evidence) missing() (names []string) {
	isElsewhere := e.vmi != nil && e.vmi.Status.MigrationState != nil && !e.plugFails
	if e.vmi == nil || e.Phase != "Running" || e.vmi.isDeleted || isElsewhere {
		return nil
	}

	devices := e.vmi.Spec.Domain.Devices
	if e.domain != "" {
		for _, d := range slices.Concat(devices.GPUs, devices.HostDevices) {
			if !e.hasAlias(d.Name) {
				names = append(names, "device "+d.Name)
			}
		}
	}

	for _, i := range devices.Interfaces {
		if i.SRIOV != nil && !e.hasInterface(i) {
			names = append(names, "interface "+i.Name)
		}
	}

	return names
}

// hasInterface reports whether the domain has the interface, or that is not known. virt-handler
// reports those of the domain, and others that the guest or Multus has (KubeVirt
// pkg/network/setup/netstat.go); that one is missing counts if its pod got no virtual function for
// it.
func (e *Evidence) hasInterface(i kubevirt.Interface) bool {
	if e.domain != "" {
		return e.hasAlias(i.Name)
	}

	isReported := func(a attached) bool {
		return a.Name == i.Name && strings.Contains(a.InfoSource, "domain")
	}
	return slices.ContainsFunc(e.vmi.interfaces, isReported) || !e.plugFails && !e.lacksNetwork(i.Name)
}

// lacksNetwork reports whether the annotation of the VM's pod has other networks than this one, or
// none.
func (e *Evidence) lacksNetwork(name string) bool {
	return slices.ContainsFunc(e.pods, func(pod object) bool {
		info, isThere := pod.Annotations[networkInfo]
		return isThere && e.isOwn("Pod", pod.Namespace, pod.Name) && !pod.isEnded() &&
			!strings.Contains(info, `"`+name+`"`)
	})
}

// hasAlias reports whether the domain has a device by the name that the VMI gives it: its alias
// ends so, or so with a number (KubeVirt pkg/virt-launcher/virtwrap/device/hostdevice).
func (e *Evidence) hasAlias(name string) bool {
	for _, end := range []string{"'", `"`, "-"} {
		if strings.Contains(e.domain, "-"+name+end) {
			return true
		}
	}
	return false
}
