// Package nvlink knows the NVLink partitions of boards with NVSwitches: the sets of GPUs that
// Fabric Manager connects for one VM. It reads the list that fmpm, Fabric Manager's client, prints
// (https://github.com/NVIDIA/Fabric-Manager-Client, fmpm.cpp).
package nvlink

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Module is the place of a GPU on its board, from 1: Fabric Manager's physical id, from H100 on
// also NVML's module id. It does not follow the order of PCI addresses.
type Module int

// Partition is a set of GPUs that a VM may have.
type Partition struct {
	ID      int
	Modules []Module // in ascending order
	// Fabric Manager has connected its GPUs, so none that overlaps can be activated
	IsActive bool
}

// List holds the partitions of a node, by ID.
type List struct {
	Partitions []Partition
	// of the GPUs, where Fabric Manager says them: not from H100 on, nor in a service VM
	Addresses map[Module]topology.Address
}

// Modules returns the GPUs that are in a partition, in ascending order.
func (l List) Modules() (modules []Module) {
	for _, p := range l.Partitions {
		modules = append(modules, p.Modules...)
	}

	slices.Sort(modules)
	return slices.Compact(modules)
}

// printed has the fields that are read of what fmpm -l prints.
type printed struct {
	Partitions []printedPartition `json:"partitionInfo"`
}

// printedPartition is one of its partitions. Numbers are Fabric Manager's unsigned int; what is
// missing is nil.
type printedPartition struct {
	ID       *uint32 `json:"partitionId"`
	IsActive uint32  `json:"isActive"`
	Count    int     `json:"numGpus"`
	GPUs     []struct {
		Module  *uint32 `json:"physicalId"`
		Address string  `json:"pciBusId"`
	} `json:"gpuInfo"`
}

// maxPartitions is far above the 35 of two A100 boards.
const maxPartitions = 256

// Parse reads what fmpm -l prints.
func Parse(data []byte) (List, error) {
	list := List{Addresses: map[Module]topology.Address{}}
	var file printed
	if err := json.Unmarshal(data, &file); err != nil {
		return list, fmt.Errorf("parse partitions: %w; must be what fmpm -l prints",
			words.JSONError(data, err))
	}

	if count := len(file.Partitions); count == 0 || count > maxPartitions {
		return list, fmt.Errorf("parse partitions: partitionInfo has %d, must be 1 to %d, as "+
			"fmpm -l prints them", count, maxPartitions)
	}

	for i, entry := range file.Partitions {
		if entry.ID == nil {
			return list, fmt.Errorf("parse partitions: entry %d has no partitionId", i+1)
		}
		if err := list.add(entry); err != nil {
			return list, fmt.Errorf("partition %d: %w", *entry.ID, err)
		}
	}

	slices.SortFunc(list.Partitions, func(a, b Partition) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// add adds a partition with an ID, and the addresses of its GPUs.
func (l *List) add(entry printedPartition) error {
	p := Partition{ID: int(*entry.ID), IsActive: entry.IsActive != 0}
	for _, gpu := range entry.GPUs {
		if gpu.Module == nil {
			return errors.New("a GPU has no physicalId")
		}

		p.Modules = append(p.Modules, Module(*gpu.Module))
		if err := l.locate(Module(*gpu.Module), gpu.Address); err != nil {
			return err
		}
	}

	slices.Sort(p.Modules)

	switch {
	case len(p.Modules) == 0:
		return errors.New("no gpuInfo")
	case entry.Count != len(p.Modules):
		return fmt.Errorf("numGpus is %d, and gpuInfo has %d", entry.Count, len(p.Modules))
	case len(slices.Compact(slices.Clone(p.Modules))) < len(p.Modules):
		return errors.New("a physicalId appears twice")
	case slices.ContainsFunc(l.Partitions, func(q Partition) bool { return q.ID == p.ID }):
		return errors.New("appears twice")
	}

	l.Partitions = append(l.Partitions, p)
	return nil
}

// locate notes the address of a GPU, unless it is one of zeros: not known. NVML's domains have
// eight digits.
func (l *List) locate(module Module, busID string) error {
	if busID == "" || strings.Trim(busID, "0:.") == "" {
		return nil
	}

	text := strings.ToLower(busID)
	if strings.IndexByte(text, ':') == len("00000000") {
		text = strings.TrimPrefix(text, "0000")
	}

	address, err := topology.ParseAddress(text)
	if err != nil {
		return err
	}

	// A GPU is in several partitions, and has the same address in all of them, which no other
	// has.
	if known, isKnown := l.Addresses[module]; isKnown && known != address {
		return fmt.Errorf("physicalId %d is at %s, elsewhere at %s", module, address, known)
	}

	for other, at := range l.Addresses {
		if at == address && other != module {
			return fmt.Errorf("physicalIds %d and %d are both at %s", min(module, other),
				max(module, other), address)
		}
	}

	l.Addresses[module] = address
	return nil
}
