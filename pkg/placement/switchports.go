package placement

import (
	"fmt"
	"path"
	"strings"

	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement/request"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// switchPortsSpeak reports whether the switches that a layout builds will advertise the host's
// links: the policy asks for it, and nothing in the domain refuses it. It is known before the
// layout is chosen, and all calls of a boot agree on it.
//
// A single switch may still stay as it is, where the host shows no link of a device under it that
// QEMU has a value for (keys.writePortSpeed).
func (s start) switchPortsSpeak() bool {
	return s.Policy.PortSpeed == "host" && s.switchPortsRefused() == ""
}

// switchPortsRefused returns why no switch port of the VM may get a link, "" where they may.
//
// QEMU's ports with a link have no VMState: a migration, a save or a snapshot with memory loses the
// switch with all devices under it, and reports nothing. So one device has to keep QEMU from it.
func (s start) switchPortsRefused() string {
	d := s.Domain
	users := libvirt.PortLinkOption(d)
	switch {
	case !libvirt.HasExpanderBuses(d):
		return fmt.Sprintf("machine %q has no switches", d.Machine)
	case !libvirt.HasSwitchPortLinks(d.Machine):
		return fmt.Sprintf("QEMU has such ports since 10.0, and machine %q runs on older ones",
			words.Abridge(d.Machine))

	case s.hasOldLauncher():
		return fmt.Sprintf("QEMU has such ports since 10.0, KubeVirt since 1.8, and the VM's "+
			"virt-launcher is %s", words.Abridge(path.Base(s.VMI.LauncherImage)))

	case s.untested() != "" && !s.Policy.Named[policy.KeyPortSpeed]:
		return fmt.Sprintf("no guest with %s was tried with them; the annotation %s%s=host of the VM "+
			"asks for them all the same", s.untested(), policy.AnnotationPrefix, policy.KeyPortSpeed)

	case users != nil:
		return fmt.Sprintf("the domain's own %s %q stays", users.Name,
			words.Abridge(users.Value))

	case !pinsToHost(s.devices):
		return "the VM may migrate, and would lose them on the way"
	}

	return s.NoRoomForPorts
}

// untested returns what the domain has of a guest that may not take such ports, Windows or a
// confidential one; "" for others.
func (s start) untested() string {
	switch {
	case s.Domain.HyperV:
		return "hyperv features"
	case s.Domain.LaunchSecurity:
		return "launchSecurity"
	}

	return ""
}

// hasOldLauncher reports whether the VM's virt-launcher is of a KubeVirt release with a QEMU before
// 10.0 (1.7 has 9.1, 1.8 has 10.1: hack/rpm-deps.sh at the tags). A machine of a newer version shows
// that the image has another QEMU than the release.
func (s start) hasOldLauncher() bool {
	const sinceQEMU10 = 8
	minor, isKnown := s.VMI.LauncherRelease()
	return isKnown && minor < sinceQEMU10 && !libvirt.IsVersioned(s.Domain.Machine)
}

// pinsToHost reports whether one of the devices cannot migrate: a physical function, or a virtual
// one that plain vfio-pci passes through. KubeVirt detaches those of SR-IOV networks before a
// migration; mediated devices, and virtual functions with a driver of their vendor, such as
// vGPUs, may have migration (kernel drivers/vfio/pci, mlx5_vfio_pci and others; KubeVirt's gate
// VGPULiveMigration).
func pinsToHost(devices []PassthroughDevice) bool {
	for _, d := range devices {
		isNetwork := strings.HasPrefix(d.Alias, request.SRIOVAlias)
		if d.ID.Kind() != topology.KindPCI || d.Function == nil || isNetwork {
			continue
		}
		if d.Function.PhysFn == nil || d.Function.Driver == "vfio-pci" {
			return true
		}
	}

	return false
}
