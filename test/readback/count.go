package readback

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/test/tree"
)

// vmi is what KubeVirt's count of hotplug ports reads of the VMI.
type vmi struct {
	Metadata struct {
		Annotations map[string]string
	}
	Spec struct {
		Architecture string
		Domain       struct {
			Machine struct{ Type string }
			Devices struct {
				Interfaces            []json.RawMessage
				UseVirtioTransitional bool
			}
		}
	}
}

const (
	slotCountAnnotation   = "kubevirt.io/pci-interface-slot-count"
	rootComplexAnnotation = "kubevirt.io/placePCIDevicesOnRootComplex"
	highestPortIndex      = 31      // virtwrap/manager.go maxPCIBusIndex
	largeMemory           = 2 << 30 // bytes, hotplugLargeMemoryThreshold
)

// PlaceholderCount returns how many placeholder interfaces KubeVirt adds to the first call
// (virtwrap/manager.go calculatePlaceholderCount).
func PlaceholderCount(vmiJSON []byte) (int, error) {
	v, err := parseVMI(vmiJSON)
	if err != nil {
		return 0, err
	}

	interfaces := len(v.Spec.Domain.Devices.Interfaces)
	if total, ok := v.Metadata.Annotations[slotCountAnnotation]; ok {
		n, err := strconv.Atoi(total)
		if err != nil {
			return 0, fmt.Errorf("annotation %s: %w", slotCountAnnotation, err)
		}
		return max(0, n-interfaces), nil
	}

	if interfaces == 0 || v.Metadata.Annotations[rootComplexAnnotation] == "true" {
		return 0, nil
	}

	return max(0, 4-interfaces), nil
}

// ExtraPorts returns how many root ports KubeVirt appends before the last call. The count is taken
// on the domain without placeholders, before the first call (virtwrap/manager.go
// calculateExtraControllerCount, calculateHotplugPortCountV2).
func ExtraPorts(domain, vmiJSON []byte, placeholders int) (int, error) {
	v, err := parseVMI(vmiJSON)
	if err != nil {
		return 0, err
	}

	root, err := tree.Parse(domain)
	if err != nil {
		return 0, err
	}
	if v.Metadata.Annotations[rootComplexAnnotation] == "true" {
		return 0, nil
	}

	total, least := 8, 3

	// KubeVirt writes the memory in bytes, unit="b".
	memory := root.Find("memory")
	if memory == nil {
		return 0, errors.New("domain has no <memory>")
	}

	if bytes, err := strconv.Atoi(memory.Text); err != nil {
		return 0, fmt.Errorf("<memory>: %w", err)
	} else if bytes > largeMemory {
		total, least = 16, 6
	}

	return max(0, max(total-countPCI(root.Find("devices")), least)-placeholders), nil
}

// countPCI counts as KubeVirt's CountPCIDevices (converter/pci-placement.go): devices
// whose address is PCI or not there yet. It counts a USB controller of model
// none, too.
func countPCI(devices *tree.Node) int {
	count := 0
	for _, device := range devices.Nodes {
		switch device.Name {
		case "interface", "watchdog", "rng", "memballoon":
		case "hostdev":
			if device.Attr("type") != "pci" {
				continue
			}

		case "controller":
			if slices.Contains([]string{
				"pci-root", "pcie-root", "pcie-expander-bus",
			}, device.Attr("model")) {
				continue
			}

		case "disk":
			if device.Find("target").Attr("bus") != "virtio" {
				continue
			}

		case "input":
			if device.Attr("bus") != "virtio" {
				continue
			}

		default:
			continue
		}

		if kind := device.Find("address").Attr("type"); kind == "" || kind == "pci" {
			count++
		}
	}

	return count
}

func parseVMI(vmiJSON []byte) (*vmi, error) {
	v := &vmi{}
	if err := json.Unmarshal(vmiJSON, v); err != nil {
		return nil, fmt.Errorf("VMI: %w", err)
	}
	return v, nil
}

// hotplug reports whether KubeVirt reserves ports for this machine at all
// (pkg/defaults SupportsPCIeHotplug); else there is exactly one call.
func (v *vmi) hotplug() bool {
	machine := v.Spec.Domain.Machine.Type
	return slices.Contains([]string{"amd64", "arm64", ""}, v.Spec.Architecture) &&
		(machine == "" || strings.Contains(machine, "q35") || strings.HasPrefix(machine, "virt"))
}
