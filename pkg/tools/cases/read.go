package cases

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/hostfs"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/gzipped"
)

// maxInput limits the bytes of a file, also after gzip.
const maxInput = 64 << 20

// Ending is the ending of a case in a file, which snapshots of hosts have, too.
const Ending = ".txtar"

// Find returns the cases that are named: a case, or those of a directory, without its other
// directories and without snapshots of hosts. They are in the order of their names.
func Find(name string) ([]string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find cases: %w", err)
	case !info.IsDir() || isCaseDirectory(name):
		return []string{name}, nil
	}

	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("find cases: %w", err)
	}

	var found []string
	for _, entry := range entries {
		path := filepath.Join(name, entry.Name())
		isCase := entry.IsDir() && isCaseDirectory(path)
		if !entry.IsDir() && filepath.Ext(path) == Ending {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("find cases: %w", err)
			}
			isCase = !isSnapshot(data)
		}

		if isCase {
			found = append(found, path)
		}
	}

	if len(found) == 0 {
		return nil, reasons.WithHint("a case is a file NAME"+Ending+", or a directory with a file "+
			settingsSection, fmt.Errorf("find cases: none in %s", name))
	}

	return found, nil
}

func isCaseDirectory(name string) bool {
	info, err := os.Stat(filepath.Join(name, settingsSection))
	return err == nil && info.Mode().IsRegular()
}

// isSnapshot reports whether a txtar file is a snapshot of a host, whose files are those of sysfs.
func isSnapshot(data []byte) bool {
	return slices.ContainsFunc(txtar.Parse(data).Files, func(f txtar.File) bool {
		return strings.HasPrefix(f.Name, "devices/") || strings.HasPrefix(f.Name, "bus/")
	})
}

// Read reads a case. An error begins with a file and a line of it.
func Read(path string) (*Case, error) {
	c := &Case{Name: strings.TrimSuffix(filepath.Base(path), Ending), Path: path}
	if err := c.open(); err != nil {
		return c, err
	}

	said, err := c.settings()
	if err != nil {
		return c, err
	}

	c.NoLibvirt, c.NoOff = said["libvirt"], said["off"]
	if c.Planner.Source, err = c.source(said); err != nil {
		return c, err
	}

	given, err := c.readDomain(said)
	if err == nil {
		err = cmp.Or(c.readVMI(said, given), c.readHost(said, given), c.readEnvironment(said, given))
	}

	return c, err
}

// open reads the sections.
func (c *Case) open() error {
	info, err := os.Stat(c.Path)
	if err != nil {
		return err
	}

	c.archive = &txtar.Archive{}
	if c.isDirectory = info.IsDir(); c.isDirectory {
		for _, name := range sections {
			data, err := os.ReadFile(c.file(name))
			switch {
			case err == nil:
				c.archive.Files = append(c.archive.Files, txtar.File{Name: name, Data: data})
			case !errors.Is(err, fs.ErrNotExist):
				return err
			}
		}
		return nil
	}

	data, err := os.ReadFile(c.Path)
	if err != nil {
		return err
	}

	c.archive = txtar.Parse(data)
	seen := map[string]bool{}
	for i, f := range c.archive.Files {
		switch {
		case !slices.Contains(sections, f.Name):
			return fmt.Errorf("%s:%d: unknown section %q: must be one of %s%s", c.Path,
				c.lineOf(i), words.Abridge(f.Name), strings.Join(sections, ", "),
				words.DidYouMean(f.Name, sections, "; ", ""))
		case seen[f.Name]:
			return fmt.Errorf("%s:%d: section %s appears twice", c.Path, c.lineOf(i), f.Name)
		}
		seen[f.Name] = true
	}

	return nil
}

// settingNames are the keys of the section case.
var settingNames = []string{
	"domain", "vmi", "host", "env", "flags", "lock", "keep", "libvirt", "off",
}

// settings returns the values of the section case.
func (c *Case) settings() (map[string]string, error) {
	said := map[string]string{}
	number := 0
	for line := range strings.Lines(string(c.Section(settingsSection))) {
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}

		key, value, hasValue := strings.Cut(line, ": ")
		at := c.where(settingsSection, number)
		switch {
		case !slices.Contains(settingNames, strings.TrimSuffix(key, ":")):
			known := slices.DeleteFunc(slices.Clone(settingNames), func(name string) bool {
				return name == "libvirt" // for the project's own tests
			})
			return nil, fmt.Errorf("%sunknown key %q: must be one of %s%s", at, words.Abridge(key),
				strings.Join(known, ", "), words.DidYouMean(key, known, "; ", ""))
		case !hasValue:
			return nil, fmt.Errorf("%sno value after %q: want KEY: VALUE", at, words.Abridge(line))
		case said[key] != "":
			return nil, fmt.Errorf("%skey %q appears twice", at, key)
		}

		said[key] = strings.TrimSpace(value)
	}

	return said, nil
}

// source returns the policy of the hook's flags. As in the hook, annotations override them.
func (c *Case) source(said map[string]string) (policy.Source, error) {
	source := policy.Source{
		Flags:            map[policy.Key]string{},
		AnnotationsFirst: true,
		Keep:             strings.Fields(said["keep"]),
	}

	for _, flag := range strings.Fields(said["flags"]) {
		name, value, _ := strings.Cut(flag, "=")
		key, err := policy.ParseKey(name)
		if err != nil {
			return source, fmt.Errorf("%sflags: %w", c.ofSetting("flags"), err)
		}
		source.Flags[key] = value
	}

	for _, name := range strings.Fields(said["lock"]) {
		key, err := policy.ParseKey(name)
		if err != nil {
			return source, fmt.Errorf("%slock: %w", c.ofSetting("lock"), err)
		}
		source.Locked = append(source.Locked, key)
	}

	if _, _, err := policy.Resolve(source); err != nil {
		return source, fmt.Errorf("%sflags: %w", c.ofSetting("flags"), err)
	}

	return source, nil
}

// ofSetting returns the place of a key of the section case, or that of the case.
func (c *Case) ofSetting(key string) string {
	if c.index(settingsSection) < 0 {
		return c.Path + ":1: "
	}

	number := 0
	for line := range strings.Lines(string(c.Section(settingsSection))) {
		number++
		if strings.HasPrefix(strings.TrimSpace(line), key+":") {
			break
		}
	}
	return c.where(settingsSection, number)
}

// input is an input of a case.
type input struct {
	data []byte
	at   func(line int) string // the file and a line of it
}

// input returns what a setting names, else the section; nil if the case has neither.
func (c *Case) input(said map[string]string, setting string, names ...string) (*input, error) {
	if name := said[setting]; name != "" {
		file := c.file(name)
		data, err := os.ReadFile(file)
		if err == nil {
			data, err = gzipped.Decompress(data, maxInput)
		}

		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", c.ofSetting(setting), setting, err)
		}

		return &input{data, func(line int) string { return fmt.Sprintf("%s:%d: ", file, line) }}, nil
	}

	for _, name := range names {
		if c.index(name) >= 0 {
			return &input{
				c.Section(name), func(line int) string { return c.where(name, line) },
			}, nil
		}
	}

	return nil, nil
}

// readDomain reads the domain, and what an archive has beside it; nil without an archive.
func (c *Case) readDomain(said map[string]string) (*Collected, error) {
	in, err := c.input(said, "domain", domainSection)
	if err != nil {
		return nil, err
	}
	if in == nil {
		return nil, reasons.WithHint("add a section domain.xml, or a line domain: FILE to the "+
			"section case", fmt.Errorf("%s:1: the case has no domain", c.Path))
	}

	if archive.IsTar(in.data) {
		return c.readArchive(said["domain"], in)
	}

	found, err := kubevirt.FindDomain(in.data, maxInput)
	if err != nil {
		return nil, fmt.Errorf("%sread domain: %w", in.at(1), err)
	}

	c.Request.Domain = found.XML
	_, err = domain.Parse(found.XML)
	invalid, isInvalid := errors.AsType[*domain.Error](err)
	switch {
	case err == nil:
		return nil, nil
	case isInvalid && bytes.Equal(found.XML, in.data):
		return nil, fmt.Errorf("%sparse domain: column %d: %s", in.at(invalid.Line), invalid.Column,
			invalid.Reason)
	}

	return nil, fmt.Errorf("%sparse domain: %w", in.at(1), err)
}

// readArchive reads the domain of an archive's only VM.
func (c *Case) readArchive(name string, in *input) (*Collected, error) {
	all, err := OfArchive(name, in.data)
	if err != nil {
		return nil, fmt.Errorf("%s%w", in.at(1), err)
	}

	if len(all) > 1 {
		names := topology.Map(all, func(vm Collected) string { return vm.String() })
		return nil, reasons.WithHint("hook-sidecar test --new makes a case of each",
			fmt.Errorf("%sthe archive has several VMs: %s", in.at(1), strings.Join(names, ", ")))
	}

	c.Request.Domain = all[0].Domain
	return &all[0], nil
}

// readVMI reads the VMI, of which there may be none.
func (c *Case) readVMI(said map[string]string, given *Collected) error {
	in, err := c.input(said, "vmi", vmiSection, vmiYAMLSection)
	switch {
	case err != nil:
		return err
	case in == nil && given != nil:
		c.Request.VMI = given.VMI
		return nil
	case in == nil || len(bytes.TrimSpace(in.data)) == 0:
		return nil
	}

	c.Request.VMI = in.data
	if !bytes.HasPrefix(bytes.TrimSpace(in.data), []byte("{")) {
		if c.Request.VMI, err = yaml.YAMLToJSON(in.data); err != nil {
			return fmt.Errorf("%sparse VMI: neither JSON nor YAML: %w", in.at(1), err)
		}
	}

	if _, err := kubevirt.ParseVMI(c.Request.VMI); err != nil {
		return fmt.Errorf("%s%w", in.at(1), err)
	}

	return nil
}

// readHost reads the host. That of the machine would make the result depend on it.
func (c *Case) readHost(said map[string]string, given *Collected) error {
	in, err := c.input(said, "host", hostSection)
	switch {
	case err != nil:
		return err
	case in != nil:
	case given != nil:
		in = &input{given.Host, func(line int) string { return c.Path + ": " }}
	default:
		return reasons.WithHint("kubectl hostdev snapshot VM --output-file host"+Ending+
			" takes a snapshot; a line host: FILE in the section case names it",
			fmt.Errorf("%s:1: the case has no host", c.Path))
	}

	// A snapshot is txtar, and the lines of package hostfs have no marker.
	if len(txtar.Parse(in.data).Files) > 0 {
		c.Planner.Sysfs, err = host.ParseSnapshot(in.data)
	} else {
		c.Planner.Sysfs, err = hostfs.Parse(string(in.data))
	}

	if invalid, isInvalid := errors.AsType[*hostfs.Error](err); isInvalid {
		return fmt.Errorf("%sread host: %w", in.at(invalid.Line), invalid.Err)
	}
	if err != nil {
		return fmt.Errorf("%sread host: %w", in.at(1), err)
	}

	return nil
}

// readEnvironment reads the variables of device plugins.
func (c *Case) readEnvironment(said map[string]string, given *Collected) error {
	in, err := c.input(said, "env", envSection)
	switch {
	case err != nil:
		return err
	case in != nil:
	case given != nil:
		in = &input{given.Environ, func(int) string { return c.Path + ": " }}
	default:
		return nil
	}

	entries, err := env.ParseEnviron(string(in.data))
	if err != nil {
		return fmt.Errorf("%s%w", in.at(1), err)
	}

	c.Planner.Variables, c.Planner.Problems = env.ParseVariables(entries)
	return nil
}
