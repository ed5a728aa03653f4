// Package topology has the types that all other packages share: PCI addresses,
// mediated devices, NUMA nodes and cells, a Host as sysfs shows it, and Tree, the
// PCI Express tree of a host or of a guest. It does no I/O and knows no XML.
//
//	Tree of a host (Host.Tree)
//	├── Root pci0000:15
//	│   └── RootPort 0000:15:01.0
//	│       └── UpstreamPort 0000:16:00.0
//	│           ├── DownstreamPort 0000:17:00.0 ── Endpoint 0000:18:00.0
//	│           └── DownstreamPort 0000:17:04.0 ── Endpoint 0000:1b:00.0
//	└── Root pci0000:97
package topology
