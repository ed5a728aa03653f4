package main

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/recorded"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// recordedHost is a host that was made of a record.
type recordedHost struct {
	sysfs  fs.FS
	header string // of a snapshot: what the host was made of, and what the record does not say
}

const recordHint = "paste " + paste.WhatToPaste + " of the machine itself"

// readRecord makes a host of what was recorded of it, in one file or several, and prints what the
// record does not say. A snapshot is a host as it is.
func readRecord(p *cli.Program, files []string) (made recordedHost, err error) {
	var names []string
	var all []byte
	for _, file := range files {
		data, err := p.ReadInput(file)
		if err != nil {
			return made, err
		}

		names = append(names, fileName(file))
		all = append(append(all, data...), '\n')
	}

	name := strings.Join(names, ", ")
	record, problems, err := paste.Read(all)
	if err != nil {
		return made, cli.Failed(recordHint, fmt.Errorf("%s: %w", name, err))
	}

	p.Warn(problems)

	if record.Has(paste.Snapshot) {
		made.sysfs, err = host.ParseSnapshot(all)
		made.header = host.SnapshotComment(all)
		return made, err
	}

	h, err := recorded.New(&record)
	if err != nil {
		return made, cli.Failed(recordHint, fmt.Errorf("%s: %w", name, err))
	}

	unknown := append(slices.Clone(record.Notes), h.Assumed...)
	for _, sentence := range unknown {
		p.Say("not in %s: %s", name, sentence)
	}

	made.header = recordHeader(name, &record, h, unknown)
	made.sysfs, err = host.Sysfs(&h.Host)
	return made, err
}

// missing names what no function of a host has, companions at the end.
func missing(h recorded.Host) string {
	var names []string
	for _, part := range []struct {
		name string
		has  func(topology.Function) bool
	}{
		{"IOMMU groups", func(d topology.Function) bool { return d.IOMMUGroup != nil }},
		{"BARs", func(d topology.Function) bool { return d.BARs != nil }},
		{"ACS, ATS", func(d topology.Function) bool {
			return d.Details != nil && d.Details.ExtendedConfig
		}},
	} {
		if !slices.ContainsFunc(h.Functions, part.has) {
			names = append(names, part.name)
		}
	}

	if len(names) == 0 {
		return "companions"
	}

	return strings.Join(names, ", ") + " and companions"
}

// recordHeader returns the header of a snapshot that was made of a record.
func recordHeader(name string, record *paste.Machine, h recorded.Host, unknown []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Host snapshot, made of %s (%s): %s, %s.\n\n", name, record.SourceNames(),
		words.Counted(len(h.Nodes), "NUMA node"), words.Counted(len(h.Functions),
			"PCI function"))

	b.WriteString("What the record does not say:\n")
	for _, sentence := range unknown {
		fmt.Fprintf(&b, "- %s\n", sentence)
	}

	fmt.Fprintf(&b, "- %s are not in it.\n", missing(h))

	addresses := slices.SortedFunc(maps.Keys(h.Was), topology.Address.Compare)
	for _, address := range addresses {
		fmt.Fprintf(&b, "%s is %s.\n", address, record.Label(h.Was[address]))
	}

	return b.String() + "\n"
}
