package report

import (
	"fmt"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/topology"
)

// Subject says what a report is about. What is not known is "".
type Subject struct {
	VM     string // "VM default/dgx", or "domain dgx" where KubeVirt did not make it
	Host   string // where the host was read: "host.txtar"
	Source string // where the domain comes from: "launcher.log, dump 2 of 2"
	Tool   string // the program with its version

	// Doubt says why the domain and the VMI do not belong together.
	Doubt string
}

// NewSubject names the VM of a domain. The VMI may be nil.
func NewSubject(d *domain.Domain, vmi *env.VMI) Subject {
	var s Subject
	// As KubeVirt names it: see env.VMI.RelationOf.
	namespace, name, isKubeVirt := strings.Cut(d.Name, "_")
	switch {
	case isKubeVirt:
		s.VM = fmt.Sprintf("VM %s/%s", namespace, name)
	case d.Name != "":
		s.VM = "domain " + d.Name
	case vmi != nil && vmi.Name != "":
		s.VM = "VM " + vmi.NamespacedName.String()
	}
	if vmi == nil || d.Name == "" || vmi.Name == "" || vmi.Namespace == "" {
		return s
	}
	switch vmi.RelationOf(d.Name, d.UID) {
	case env.OtherVM:
		of := strings.TrimPrefix(s.VM, "VM ")
		s.Doubt = fmt.Sprintf("the VMI is %s, and the domain is of %s", vmi.NamespacedName, of)
	case env.OtherRun:
		s.Doubt = fmt.Sprintf("the VMI and the domain are of two runs of %s: their uids differ", vmi.NamespacedName)
	}
	return s
}

// line is the subject in one line, or in as many as it takes.
func (s Subject) line(style Style) string {
	line, column := "", 0
	for _, part := range []string{s.VM, s.Host, s.Source, s.Tool} {
		part = topology.Printable(part)
		switch {
		case part == "":
			continue
		case line == "":
		case column+columns(style.lines().between+part) > style.width():
			line += "\n  "
			column = 2
		default:
			line += style.lines().between
			column += columns(style.lines().between)
		}
		line += part
		column += columns(part)
	}
	return line
}

// write writes the lines with which every text begins.
func (s Subject) write(b *strings.Builder, style Style) {
	if line := s.line(style); line != "" {
		writeLine(b, line)
	}
	if s.Doubt != "" {
		writeLine(b, style.Paint(Yellow, style.wrap("warning: "+topology.Printable(s.Doubt), 0, 2)))
	}
}
