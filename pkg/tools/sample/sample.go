// Package sample writes the domain of a VM that gets devices of a host, for who has a host and no
// VM.
package sample

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"

	"hook-sidecar/pkg/topology"
)

// AliasedDevice is a passthrough device of the VM, with its alias in the domain.
type AliasedDevice struct {
	ID    topology.DeviceID
	Alias string // without libvirt's "ua-"
}

// Spec says which cells and devices a sample VM has. The VM has two CPUs and 4 GiB per guest cell.
type Spec struct {
	Cells   [][]int // the host nodes of each cell's memory; none for a guest without NUMA
	Devices []AliasedDevice
}

// Of returns the VM with all GPUs and NICs of a host that are bound to a VFIO driver, and a cell
// per NUMA node with CPUs. A host without a GPU is an error.
func Of(host *topology.Host) (Spec, error) {
	vm := Spec{}
	for _, n := range host.Nodes {
		if !n.CPUs.IsEmpty() {
			vm.Cells = append(vm.Cells, []int{int(n.ID)})
		}
	}

	var gpus, nics []AliasedDevice
	for i := range host.Functions {
		d := &host.Functions[i]
		id := topology.PCIDevice(d.Address)
		switch {
		case !d.IsVFIO():
		case d.IsGPU():
			gpus = append(gpus, AliasedDevice{id, fmt.Sprintf("gpu-gpu%d", len(gpus))})
		case d.IsNIC():
			nics = append(nics, AliasedDevice{id, fmt.Sprintf("hostdevice-nic%d", len(nics))})
		}
	}

	if len(gpus) == 0 {
		return vm, errors.New("the host has no GPU that is bound to a VFIO driver")
	}

	vm.Devices = append(nics, gpus...) // in KubeVirt's order
	return vm, nil
}

//go:embed domain.tmpl
var text string

var domain = template.Must(template.New("domain").Funcs(template.FuncMap{
	"cpus": func(cell int) string {
		return fmt.Sprintf("%d-%d", cpusPerCell*cell, cpusPerCell*(cell+1)-1)
	},
	"nodes": nodeset,
	"hex":   func(width int, number any) string { return fmt.Sprintf("0x%0*x", width, number) },
}).Parse(text))

// The size of a cell.
const (
	cpusPerCell = 2
	mibPerCell  = 4096
)

// Domain returns the domain as virt-launcher passes it to a hook: with a disk and a NIC that have
// no guest addresses, and the devices in their order.
func (vm Spec) Domain() ([]byte, error) {
	var b bytes.Buffer
	if err := domain.Execute(&b, vm); err != nil {
		return nil, fmt.Errorf("write the domain: %w", err)
	}
	return b.Bytes(), nil
}

// CPUs returns the number of vCPUs.
func (vm Spec) CPUs() int { return cpusPerCell * max(1, len(vm.Cells)) }

// MiB returns the size of the memory.
func (vm Spec) MiB() int { return mibPerCell * max(1, len(vm.Cells)) }

// Nodes returns the host nodes of all cells.
func (vm Spec) Nodes() (all []int) {
	for _, nodes := range vm.Cells {
		all = append(all, nodes...)
	}
	return all
}

// IsPCI reports whether the device is a PCI function and not a mediated device.
func (d AliasedDevice) IsPCI() bool { return d.ID.Kind() == topology.KindPCI }

// At returns the address of a PCI function.
func (d AliasedDevice) At() topology.Address {
	a, _ := d.ID.PCI()
	return a
}

func nodeset(nodes []int) string {
	return strings.Join(topology.Map(nodes, strconv.Itoa), ",")
}
