package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/topology"
)

// displayOf says whether a GPU that is added gets a display and a ramfb, by the
// rules of KubeVirt v1.9.0 pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go:
// a PCI GPU gets each only where it is enabled in so many words (isRamFBSet;
// KubeVirt's main gives the display a ramfb unless that is disabled, the release
// counts here); of mediated GPUs the first gets both, unless any GPU of the VMI
// has display options, which then count for each of its own. First says that no
// mediated GPU is in the domain yet. It is for domains with graphics; see hasGraphics.
func displayOf(r env.Request, gpus []env.Request, id topology.DeviceID, first bool) (display, ramfb bool) {
	if id.Kind() == topology.KindPCI {
		display = isTrue(r.Display.Enabled)
		return display, display && isTrue(r.Display.RamFB)
	}
	if !slices.ContainsFunc(gpus, func(g env.Request) bool { return g.Display.Set }) {
		return first, first
	}
	if !r.Display.Set {
		return false, false
	}
	display = isNilOrTrue(r.Display.Enabled)
	return display, display && isNilOrTrue(r.Display.RamFB)
}

// hasGraphics reports whether a domain has a graphics device, without which libvirt
// refuses a display (src/qemu/qemu_validate.c, qemuValidateDomainMdevDefVFIOPCI).
func hasGraphics(d *domain.Domain) bool {
	return slices.ContainsFunc(d.Others, func(o domain.Device) bool { return o.Element == "graphics" })
}

func isTrue(b *bool) bool { return b != nil && *b }

func isNilOrTrue(b *bool) bool { return b == nil || *b }
