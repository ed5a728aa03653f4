// Package cases has golden cases of domains: it reads one (read.go), makes one of an archive of
// kubectl hostdev collect (collected.go), plans it as the hook would, and compares the result with
// what the case wants (run.go, outcome.go), also for CI systems (junit.go). The command test and
// the project's own tests use it.
//
// A case is a txtar file (package golang.org/x/tools/txtar), or a directory with a file named case
// whose files are the sections. In a file, the comment before the first section says why the case
// exists.
//
//	-- case --        key: value lines, each optional; a file's name is relative to the case
//	  domain: FILE    the domain, instead of the section domain.xml: XML, virt-launcher's log, or an
//	                  archive of kubectl hostdev collect, which has VMI, host and environment too
//	  vmi: FILE       the VMI or VM, instead of vmi.json or vmi.yaml
//	  host: FILE      a snapshot, or lines of package hostfs, instead of the section host
//	  env: FILE       the environment, instead of the section env
//	  flags: K=V …    flags of the hook: policy keys
//	  lock: K …       keys whose annotations are ignored
//	  keep: ALIAS …   aliases that are not moved
//	  libvirt: TEXT   why libvirt's verdict on the result does not count, for the project's tests
//	  off: TEXT       why the keys, off again, leave something else than the domain without them
//	-- host --        a host in the format of package hostfs
//	-- env --         NAME=VALUE lines
//	-- domain.xml --
//	-- vmi.json --    or vmi.yaml
//	-- want.diff --   what changes in the domain, or want.xml, the domain that results
//	-- want.txt --    places and warnings, in short, or the error
package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/plan"
)

// Case is one golden case.
type Case struct {
	Name    string // without directory and ending
	Path    string // as it was named
	Planner plan.Planner
	Request plan.Request
	// NoLibvirt says why libvirt is not asked about the result; "" when it is.
	NoLibvirt string
	// NoOff says why the keys, off again, leave something else than the domain without them; "" when
	// they do not.
	NoOff string

	isDirectory bool
	archive     *txtar.Archive
}

// The sections of a case, and the names of its files in a directory.
const (
	settingsSection = "case"
	hostSection     = "host"
	envSection      = "env"
	domainSection   = "domain.xml"
	vmiSection      = "vmi.json"
	vmiYAMLSection  = "vmi.yaml"
	wantXML         = "want.xml"
	wantDiff        = "want.diff"
	wantText        = "want.txt"
)

var sections = []string{
	settingsSection, hostSection, envSection, domainSection, vmiSection, vmiYAMLSection, wantXML,
	wantDiff, wantText,
}

// Comment returns what a file says before its first section.
func (c *Case) Comment() string { return string(c.archive.Comment) }

// Section returns a section of the case, nil when the case does not have it.
func (c *Case) Section(name string) []byte {
	if i := c.index(name); i >= 0 {
		return c.archive.Files[i].Data
	}
	return nil
}

func (c *Case) index(name string) int {
	return slices.IndexFunc(c.archive.Files, func(f txtar.File) bool { return f.Name == name })
}

// Update writes the case with what is wanted replaced by what results, if that differs.
func (c *Case) Update(differences []Difference) error {
	for _, d := range differences {
		i := c.index(d.Section)
		if i < 0 {
			i = len(c.archive.Files)
			c.archive.Files = append(c.archive.Files, txtar.File{Name: d.Section})
		}

		c.archive.Files[i].Data = []byte(d.Got)
		if !c.isDirectory {
			continue
		}
		if err := os.WriteFile(c.file(d.Section), []byte(d.Got), 0o644); err != nil {
			return err
		}
	}

	if c.isDirectory || len(differences) == 0 {
		return nil
	}

	return os.WriteFile(c.Path, txtar.Format(c.archive), 0o644)
}

// file returns the name of a file that is named relative to the case.
func (c *Case) file(name string) string {
	switch {
	case filepath.IsAbs(name):
		return name
	case c.isDirectory:
		return filepath.Join(c.Path, name)
	}

	return filepath.Join(filepath.Dir(c.Path), name)
}

// where returns the file and the line of a section's first line, with a colon: messages begin so.
func (c *Case) where(name string, line int) string {
	if c.isDirectory {
		return fmt.Sprintf("%s:%d: ", c.file(name), line)
	}
	return fmt.Sprintf("%s:%d: ", c.Path, c.lineOf(c.index(name))+line)
}

// lineOf returns the line of the marker that begins the ith section. Format writes what Parse has
// read, but for a missing end of the last line.
func (c *Case) lineOf(i int) int {
	before := &txtar.Archive{Comment: c.archive.Comment, Files: c.archive.Files[:i]}
	return 1 + strings.Count(string(txtar.Format(before)), "\n")
}
