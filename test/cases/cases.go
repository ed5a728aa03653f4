// Package cases loads the golden cases of testdata/cases: one txtar file per
// case. The comment says why the case exists and why its outcome is right.
//
//	-- case --        key: value lines, each optional:
//	  host: NAME      a snapshot of testdata/hosts, instead of a host section
//	  domain: FILE    a domain of testdata/samples, instead of domain.xml
//	  vmi: FILE       a VMI of testdata/samples, instead of vmi.json
//	  flags: K=V …    policy flags
//	  keep: ALIAS …   aliases that are not moved
//	  libvirt: TEXT   why libvirt's verdict on the result does not count
//	-- host --        a host in the format of package hostfs
//	-- env --         NAME=VALUE lines
//	-- domain.xml --
//	-- vmi.json --
//	-- want.diff --   what changes in the domain
//	-- want.txt --    what explain prints, or the error
package cases

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/hostfs"
)

// Case is one golden case.
type Case struct {
	Name    string
	Planner plan.Planner
	Request plan.Request
	// NoLibvirt says why libvirt is not asked about the result; "" when it is.
	NoLibvirt string

	file    string
	archive *txtar.Archive
}

// Load loads every case in root/testdata/cases; root is the module's directory as
// seen from the test.
func Load(tb testing.TB, root string) []Case {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(root, "testdata", "cases", "*.txtar"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no cases in %s/testdata/cases: %v", root, err)
	}

	all := make([]Case, len(files))
	for i, file := range files {
		if all[i], err = load(root, file); err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
	}

	return all
}

// Named loads the case with a name.
func Named(tb testing.TB, root, name string) Case {
	tb.Helper()
	c, err := load(root, filepath.Join(root, "testdata", "cases", name+".txtar"))
	if err != nil {
		tb.Fatal(err)
	}

	return c
}

func load(root, file string) (Case, error) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return Case{}, err
	}

	c := Case{Name: strings.TrimSuffix(filepath.Base(file), ".txtar"), file: file, archive: archive}
	if len(strings.TrimSpace(string(archive.Comment))) == 0 {
		return c, fmt.Errorf("the case has no comment that says why it exists")
	}

	said, err := settings(string(c.Section("case")))
	if err != nil {
		return c, err
	}

	sample := func(section, setting string) ([]byte, error) {
		if name := said[setting]; name != "" {
			return os.ReadFile(filepath.Join(root, "testdata", "samples", name))
		}
		return c.Section(section), nil
	}
	if c.Request.Domain, err = sample("domain.xml", "domain"); err != nil {
		return c, err
	}

	if c.Request.VMI, err = sample("vmi.json", "vmi"); err != nil {
		return c, err
	}

	c.NoLibvirt = said["libvirt"]
	if c.Planner, err = planner(root, said, c.Section("host"), c.Section("env")); err != nil {
		return c, err
	}

	return c, nil
}

func settings(text string) (map[string]string, error) {
	said := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "host", "domain", "vmi", "flags", "keep", "libvirt":
		default:
			return nil, fmt.Errorf("section case: unknown key %q", key)
		}

		if !ok {
			return nil, fmt.Errorf("section case: no value in %q", line)
		}

		said[key] = value
	}

	return said, nil
}

func planner(root string, said map[string]string, host, environ []byte) (plan.Planner, error) {
	m := plan.Planner{
		Source: policy.Source{
			Flags:            map[policy.Key]string{},
			AnnotationsFirst: true,
			Keep:             strings.Fields(said["keep"]),
		},
	}

	for _, flag := range strings.Fields(said["flags"]) {
		key, value, _ := strings.Cut(flag, "=")
		m.Flags[policy.Key(key)] = value
	}

	entries, err := env.ParseEnviron(string(environ))
	if err != nil {
		return m, err
	}

	m.Variables, m.Problems = env.ParseVariables(entries)
	m.Sysfs, err = sysfs(root, said["host"], host)
	return m, err
}

func sysfs(root, name string, described []byte) (fs.FS, error) {
	if name == "" {
		return hostfs.Parse(string(described))
	}

	data, err := os.ReadFile(filepath.Join(root, "testdata", "hosts", name+".txtar"))
	if err != nil {
		return nil, err
	}

	return host.ParseSnapshot(data)
}

// Section returns a section of the case, nil when the case does not have it.
func (c *Case) Section(name string) []byte {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// Update writes the case with these sections replaced.
func (c *Case) Update(sections map[string][]byte) error {
	for _, name := range []string{"want.diff", "want.txt"} {
		data, given := sections[name]
		if !given {
			continue
		}

		if c.Section(name) == nil {
			c.archive.Files = append(c.archive.Files, txtar.File{Name: name})
		}

		for i, f := range c.archive.Files {
			if f.Name == name {
				c.archive.Files[i].Data = data
			}
		}
	}

	return os.WriteFile(c.file, txtar.Format(c.archive), 0o644)
}
