package host

import (
	"io/fs"
	"os"
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// live is this machine's own sysfs.
const live = "/sys"

// Kernel returns the release of a host's kernel, such as "6.1.0-50-amd64": this machine's, or that
// which the comment of a snapshot names. It is "" where it is not known.
func Kernel(sysfs fs.FS) string {
	if snapshot, hasKernel := sysfs.(interface{ Kernel() string }); hasKernel {
		return snapshot.Kernel()
	}
	return ""
}

// Kernel returns the release that the snapshot's comment names.
func (s *fileSystem) Kernel() string { return s.kernel }

// Kernel returns the release of this machine's kernel, if the directory is its sysfs.
func (d machineDir) Kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if !d.isLive || err != nil {
		return ""
	}
	return strings.TrimSpace(string(release))
}

// Source returns what a snapshot's comment says about a host's sysfs, and Kernel reads there.
func Source(sysfs fs.FS) string {
	if release := Kernel(sysfs); release != "" {
		return live + " of Linux " + release
	}
	return live
}

// argumentNames are the kernel's arguments that decide about ACS, ATS and the IOMMU (Linux
// Documentation/admin-guide/kernel-parameters.txt). Others may say what is private.
const argumentNames = "pci iommu iommu.passthrough iommu.strict intel_iommu amd_iommu" +
	" pcie_acs_override"

// argumentsFile is a file of snapshots only: the kernel's arguments that argumentNames lists.
const argumentsFile = "kernel/arguments"

// arguments reads the kernel's arguments that argumentNames lists: this machine's where the directory
// is its sysfs, else those of a snapshot.
func (r *hostReader) arguments() []string {
	machine, isMachine := r.tree.fsys.(machineDir)
	if !isMachine || !machine.isLive {
		return argumentsOf(r.file(argumentsFile))
	}

	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return nil
	}

	return argumentsOf(string(line))
}

// argumentsOf returns the words of a kernel's command line that argumentNames lists.
func argumentsOf(line string) []string {
	var arguments []string
	for word := range strings.FieldsSeq(line) {
		name, _, _ := strings.Cut(word, "=")
		if slices.Contains(strings.Fields(argumentNames), name) {
			arguments = append(arguments, word)
		}
	}

	return arguments
}

// sourceText matches what Source and the script say.
var sourceText = lazyregexp.New(live + ` of Linux (\S+)`)

// kernelOf returns the release that a snapshot's comment names, or "".
func kernelOf(comment string) string {
	if found := sourceText.FindStringSubmatch(comment); found != nil {
		return found[1]
	}
	return ""
}
