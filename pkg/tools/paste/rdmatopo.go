package paste

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

// rdmaTopoStart matches the beginning of what rdma_topo dump prints, whose keys are in this order
// (rdma-core, rdma_topo, class SysfsDevice).
var rdmaTopoStart = lazyregexp.New(`\[\s*\{\s*"realpath"`)

func isRDMATopo(t text) bool {
	return strings.Contains(t.all, `"realpath"`) && rdmaTopoStart.MatchString(t.all)
}

// rdmaTopoFunction is a function in the dump. What else it has are serial numbers.
type rdmaTopoFunction struct {
	Path       string `json:"realpath"`
	Config     string // base64 of zlib of the configuration space
	Modalias   string
	Group      *int                `json:"iommu_group"`
	Node       *int                `json:"numa_node"`
	Subsystems map[string][]string // names by the directory of sysfs: infiniband, net
}

// readRDMATopo reads what rdma_topo dump prints, as root on a host: JSON with the configuration
// space of each function. It leaves out host bridges and other parts of the root complex.
func readRDMATopo(t text) (Machine, error) {
	var dump []rdmaTopoFunction
	start := rdmaTopoStart.FindStringIndex(t.all)[0]
	if err := json.NewDecoder(strings.NewReader(t.all[start:])).Decode(&dump); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the end is missing")
		}
		return Machine{}, fmt.Errorf("rdma_topo dump: %w", err)
	}

	m := Machine{Sources: []Source{RDMATopo}, Farthest: topology.NODE}
	hasInterface := map[topology.Address]bool{}
	for _, f := range dump {
		config, err := f.configuration()
		if err != nil {
			return Machine{}, fmt.Errorf("rdma_topo dump: %s: config: %w", words.Abridge(f.Path), err)
		}

		d, err := f.function(config)
		if err != nil {
			return Machine{}, fmt.Errorf("rdma_topo dump: %s: %w", words.Abridge(f.Path), err)
		}

		m.Functions = append(m.Functions, d)
		if isGone(config) {
			m.fault(d.Address, NoAnswer)
		}

		if f.Node == nil {
			m.lacksNode(d.Address)
		}

		if names := f.Subsystems["infiniband"]; len(names) > 0 {
			m.name(d.Address, names[0])
		}
		hasInterface[d.Address] = len(f.Subsystems["net"]) > 0
	}

	m, err := m.sorted()
	m.lacksRDMA(hasInterface)
	return m.withTree(), err
}

// function returns a function of the dump, with what its configuration space says.
func (f rdmaTopoFunction) function(config []byte) (topology.Function, error) {
	d, err := placeOf(f.Path)
	if err != nil {
		return d, err
	}

	d.Details = &topology.Details{}
	host.ReadCapabilities(d.Details, config)
	d.MaxLink = host.ReadMaxLink(config)
	d.IOMMUGroup = f.Group

	if f.Node != nil && *f.Node >= 0 {
		if d.Node, err = onNode(strconv.Itoa(*f.Node)); err != nil {
			return d, err
		}
	}

	return d, f.identify(&d)
}

// placeOf returns a function with the PCIe root and the bridges of its path in /sys, or of the end of
// that: pci0000:15/0000:15:01.0/0000:16:00.0.
func placeOf(at string) (d topology.Function, err error) {
	if d.Address, err = topology.ParseAddress(path.Base(at)); err != nil {
		return d, err
	}

	for part := range strings.SplitSeq(path.Dir(at), "/") {
		bridge, err := topology.ParseAddress(part)
		switch {
		// A device under VMD has two roots in its path, of which the last counts.
		case strings.HasPrefix(part, "pci") && strings.Contains(part, ":"):
			d.Root, d.Bridges = topology.PCIeRoot(part), nil
		case err == nil:
			d.Bridges = append(d.Bridges, bridge)
		case d.Root != "":
			return d, fmt.Errorf("path of a PCI function: %w", err)
		}
	}

	switch {
	case d.Root == "":
		return d, errors.New("no PCIe root in its path")
	case len(d.Bridges) > maxDepth:
		return d, errTooMany
	}

	return d, nil
}

// configuration returns a function's configuration space.
func (f rdmaTopoFunction) configuration() ([]byte, error) {
	const longest = 4096
	packed, err := base64.StdEncoding.DecodeString(f.Config)
	if err != nil {
		return nil, err
	}

	unpacked, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}

	return io.ReadAll(io.LimitReader(unpacked, longest))
}

// modaliasForm is what the kernel writes (drivers/pci/pci-sysfs.c, modalias_show).
const modaliasForm = "pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X"

// identify reads the ids and the class of a function.
func (f rdmaTopoFunction) identify(d *topology.Function) error {
	var subsystem [2]uint16
	var class [3]uint32
	if _, err := fmt.Sscanf(f.Modalias, modaliasForm, &d.Vendor, &d.Device, &subsystem[0],
		&subsystem[1], &class[0], &class[1], &class[2]); err != nil {
		return fmt.Errorf("invalid modalias %q: %w", words.Abridge(f.Modalias), err)
	}

	d.Details.SubsystemVendor, d.Details.SubsystemDevice = subsystem[0], subsystem[1]
	d.Class = class[0]<<16 | class[1]<<8 | class[2]
	d.IsBridge = topology.IsBridgeClass(d.Class)
	return nil
}
