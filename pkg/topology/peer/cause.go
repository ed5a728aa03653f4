package peer

import (
	"fmt"
	"maps"
	"slices"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Cause is the cause of an answer, a word that stays.
type Cause string

// The causes.
const (
	CauseDirect             Cause = "direct"
	CauseVera               Cause = "vera"
	CauseNoATS              Cause = "no-ats"
	CauseIOMMUWithoutATS    Cause = "iommu-without-ats"
	CauseNoDirectTranslated Cause = "no-direct-translated"
	CauseNoCommonSwitch     Cause = "no-common-switch"

	CauseNotMapped          Cause = "not-mapped"
	CauseNotIsolated        Cause = "not-isolated"
	CauseSameGroup          Cause = "same-group"
	CauseTranslationBlocked Cause = "translation-blocked"
	CauseRootRefuses        Cause = "root-complex-refuses"
	CauseATSOnVera          Cause = "ats-on-vera"
	CauseVeraPorts          Cause = "vera-ports"

	CauseMappingUnknown     Cause = "mapping-unknown"
	CauseAddressRange       Cause = "address-range"
	CauseUnreadable         Cause = "unreadable"
	CauseNotRecorded        Cause = "not-recorded"
	CauseEgressControl      Cause = "egress-control"
	CauseReadsThroughRoot   Cause = "reads-through-unlisted-root"
	CauseRootUnknown        Cause = "root-complex-unknown"
	CauseMediatedDevice     Cause = "mediated-device"
	CauseNotShown           Cause = "not-shown"
	CauseRootComplexDevice  Cause = "root-complex-device"
	CauseConventionalBridge Cause = "conventional-bridge"
	CauseOneDevice          Cause = "one-device"
	CauseGrace              Cause = "grace"
	CauseGuestIOMMU         Cause = "guest-iommu"
)

// causes says of each cause what answer it gives, what it is, and what the administrator can do; ""
// for nothing.
var causes = map[Cause]struct {
	readiness       Readiness
	meaning, remedy string
}{
	CauseDirect: {Ready,
		"requests that the device has translated go straight through the switch",
		"let the NIC order reads loosely (NCCL_IB_PCI_RELAXED_ORDERING=1)"},
	CauseVera: {ThroughRoot, "the root ports of Vera pass requests to each other", ""},
	CauseNoATS: {ThroughRoot,
		"requests go up to the IOMMU, and the device has no ATS to translate them itself",
		"on ConnectX: mlxconfig -d DEVICE set ATS_ENABLED=true, then reboot the host"},
	CauseIOMMUWithoutATS: {ThroughRoot,
		"requests go up to the IOMMU, which gives no device translations (ATS)",
		"turn ATS of the IOMMU on in the firmware, if it has that"},
	CauseNoDirectTranslated: {ThroughRoot,
		"requests go up to the IOMMU, also those that the device has translated",
		"boot the host with pci=config_acs=1x111x1@PORT (Linux 6.11), or until the next boot run " +
			"setpci -s PORT ECAP_ACS+6.w=40:40 for each port"},
	CauseNoCommonSwitch: {ThroughRoot,
		"no switch is above both devices",
		"use devices under one switch"},

	CauseNotMapped: {NotReady,
		"with iommufd the BARs of the peer are mapped only from Linux 6.19 and QEMU 11.0 on",
		"leave iommufd out, or update both"},
	CauseNotIsolated: {NotReady,
		"SV, RR, CR and UF of ACS are not all on, so a switch may deliver requests with guest" +
			" addresses to another device",
		"on the node turn ACS on: in the firmware, without pci=disable_acs_redir and without " +
			"a script that clears it with setpci, as NCCL's page has one for bare metal; then " +
			"reboot"},
	CauseSameGroup: {NotReady,
		"both are in one IOMMU group, so nothing isolates them",
		"turn ACS on in the firmware, or use a slot under another port"},
	CauseTranslationBlocked: {NotReady,
		"ports block requests that the device has translated (TB of ACS)",
		"on the node take out pci=noats, then reboot"},
	CauseRootRefuses: {NotReady,
		"requests go up to a root complex that Linux does not list as one that passes them on" +
			" (drivers/pci/p2pdma.c)",
		"in the guest keep software from using the path: NCCL_P2P_DISABLE=1, " +
			"NCCL_NET_GDR_LEVEL=LOC"},
	CauseATSOnVera: {NotReady,
		"on Vera the NIC must not translate addresses itself",
		"mlxconfig -d DEVICE set ATS_ENABLED=false, then reboot the host"},
	CauseVeraPorts: {NotReady,
		"on Vera SV, RR and UF of ACS have to be on, and CR off",
		"set the ports with rdma_topo of rdma-core"},

	CauseMappingUnknown: {Unknown,
		"with iommufd the BARs of the peer are mapped only from Linux 6.19 and QEMU 11.0 on, " +
			"and one of them is not known here",
		"leave iommufd out, or update both"},
	CauseAddressRange: {Unknown,
		"the guest has 40 address bits, and SeaBIOS may put BARs right below 1 TiB, which AMD's " +
			"IOMMU does not map",
		"give the guest a host-passthrough CPU, which has the host's address bits"},
	CauseUnreadable: {Unknown,
		"ACS and ATS cannot be read here, which takes root on the node",
		AsRoot},
	CauseNotRecorded: {Unknown,
		"the snapshot has only some bits of ACS",
		"take the snapshot again, as root on the node"},
	CauseEgressControl: {Unknown,
		"a vector decides where requests may go (EC of ACS), and nothing reads it",
		"turn EC off: setpci -s PORT ECAP_ACS+6.w=0:20"},
	CauseReadsThroughRoot: {Unknown,
		"writes go straight through the switch, and answers to reads through a root complex " +
			"that Linux does not list as one that passes them on",
		"compare what a peer received before you rely on it"},
	CauseRootUnknown: {Unknown,
		"requests go up to a root complex that is not identified: the first function of its " +
			"root bus, or the CPU, is not recorded",
		"take the snapshot of the whole node again, as root"},
	CauseMediatedDevice: {Unknown, "a mediated device has no BARs of its own on the host", ""},
	CauseNotShown:       {Unknown, "the host does not show where the devices are", ""},
	CauseRootComplexDevice: {Unknown,
		"a device is part of the root complex, where paths between peers are unknown",
		"use a device under a port"},
	CauseConventionalBridge: {Unknown,
		"a bridge to conventional PCI is on the path",
		"use a PCI Express slot"},
	CauseOneDevice: {Unknown, "both are functions under one port", ""},
	CauseGuestIOMMU: {Unknown,
		"the guest has an IOMMU, and decides itself what devices send",
		"boot the guest with iommu=pt, which makes the path that of a guest without one"},
	CauseGrace: {Unknown,
		"on Grace a GPU's memory is reached over NVLink-C2C or a NIC's own function",
		"see NVIDIA's documents for the machine"},
}

// AsRoot says who can read ACS and ATS: an opener of config with CAP_SYS_ADMIN (Linux
// drivers/pci/pci-sysfs.c, pci_read_config).
const AsRoot = "run doctor, or take the snapshot, as root on the node, or with kubectl hostdev " +
	"snapshot node/NODE --debug-image busybox --registers"

// Causes returns all causes.
func Causes() []Cause { return slices.Sorted(maps.Keys(causes)) }

// Readiness returns the answer that the cause gives.
func (c Cause) Readiness() Readiness { return causes[c].readiness }

// Remedy says what the administrator, or where nothing else helps the user in the guest, can do; ""
// for nothing.
func (c Cause) Remedy() string { return causes[c].remedy }

// Meaning says what the cause is.
func (c Cause) Meaning() string { return causes[c].meaning }

// String formats the answer with the functions that are the cause: `not ready (not-isolated): …`.
func (a Answer) String() string {
	text := fmt.Sprintf("%s (%s): %s", a.Cause.Readiness(), a.Cause, a.Cause.Meaning())
	if len(a.Functions) == 0 {
		return text
	}

	return text + ": " +
		words.FirstOf(topology.Map(a.Functions, topology.Address.String), 4, ", ")
}
