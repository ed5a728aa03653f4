// Package topology has the types that all other packages share: PCI addresses,
// mediated devices, NUMA nodes and cells, PCIe roots, and a host made of them.
// It does no I/O and knows no XML.
//
//	Host
//	├── NUMANode 0 (CPUs)
//	└── PCIeRoot pci0000:15
//	    └── root port 0000:15:01.0
//	        └── upstream port 0000:16:00.0
//	            ├── downstream port 0000:17:00.0 ── Device 0000:18:00.0
//	            └── downstream port 0000:17:04.0 ── Device 0000:1b:00.0
package topology
