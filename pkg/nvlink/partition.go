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

// maxPartitions is far above the 35 of two A100 boards.
const maxPartitions = 256

// Parse reads what fmpm -l prints.
func Parse(data []byte) (List, error) {
	var file struct {
		Partitions []struct {
			ID       *int `json:"partitionId"`
			IsActive int  `json:"isActive"`
			Count    int  `json:"numGpus"`
			GPUs     []struct {
				Module  *Module `json:"physicalId"`
				Address string  `json:"pciBusId"`
			} `json:"gpuInfo"`
		} `json:"partitionInfo"`
	}

	list := List{Addresses: map[Module]topology.Address{}}
	if err := json.Unmarshal(data, &file); err != nil {
		return list, fmt.Errorf("parse partitions: %w", err)
	}

	if len(file.Partitions) == 0 || len(file.Partitions) > maxPartitions {
		return list,
			fmt.Errorf("parse partitions: %d in partitionInfo, must be 1 to %d, as fmpm -l prints them", len(file.Partitions), maxPartitions)
	}

	for i, of := range file.Partitions {
		if of.ID == nil {
			return list, fmt.Errorf("parse partitions: entry %d has no partitionId", i+1)
		}

		p := Partition{ID: *of.ID, IsActive: of.IsActive != 0}
		for _, gpu := range of.GPUs {
			if gpu.Module == nil || *gpu.Module < 0 {
				return list, fmt.Errorf("partition %d: a GPU has no valid physicalId", p.ID)
			}

			p.Modules = append(p.Modules, *gpu.Module)
			if err := list.locate(*gpu.Module, gpu.Address); err != nil {
				return list, fmt.Errorf("partition %d: %w", p.ID, err)
			}
		}

		slices.Sort(p.Modules)
		if err := list.check(p, of.Count); err != nil {
			return list, fmt.Errorf("partition %d: %w", p.ID, err)
		}

		list.Partitions = append(list.Partitions, p)
	}

	slices.SortFunc(list.Partitions, func(a, b Partition) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// check checks a partition that is not in the list yet.
func (l *List) check(p Partition, count int) error {
	switch {
	case len(p.Modules) == 0:
		return errors.New("no gpuInfo")
	case count != len(p.Modules):
		return fmt.Errorf("numGpus is %d, and gpuInfo has %d", count, len(p.Modules))
	case len(slices.Compact(slices.Clone(p.Modules))) < len(p.Modules):
		return errors.New("a physicalId appears twice")
	case slices.ContainsFunc(l.Partitions, func(q Partition) bool { return q.ID == p.ID }):
		return errors.New("appears twice")
	}

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
