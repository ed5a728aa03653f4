// Package topology holds the words of the field as values: PCI addresses,
// mediated devices, NUMA nodes and cells, PCIe roots, and a host made of them.
// It does no I/O and knows no XML; everything else is built on it.
//
//	Host
//	├── NUMANode 0 (CPUs)
//	└── PCIeRoot pci0000:15
//	    └── root port 0000:15:01.0
//	        └── upstream port 0000:16:00.0
//	            ├── downstream port 0000:17:00.0 ── Device 0000:18:00.0
//	            └── downstream port 0000:17:04.0 ── Device 0000:1b:00.0
package topology
