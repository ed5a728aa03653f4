//go:build unix

package speed_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing/fstest"
)

// host is a directory as sysfs, in which anything may change but the directory
// itself. What is random follows from the seed.
type host struct {
	dir      string
	attic    string // outside of dir, for directories that were replaced
	replaced int
	intact   fstest.MapFS // the host as it was
	paths    []string     // of intact, sorted
	rng      *rand.Rand
}

func newHost(dir, attic string, intact fstest.MapFS, seed uint64) *host {
	return &host{dir: dir, attic: attic, intact: intact, paths: slices.Sorted(maps.Keys(intact)), rng: rand.New(rand.NewPCG(seed, seed))}
}

func (h *host) at(name string) string { return filepath.Join(h.dir, name) }

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// change makes a random change and says which.
func (h *host) change() string {
	changes := []struct {
		weight int
		make   func() (string, error)
	}{
		{9, h.restore}, {5, h.rewrite}, {3, h.turn}, {3, h.relink}, {3, h.unbind}, {2, h.forbid}, {3, h.remove}, {3, h.move}, {4, h.replace}, {1, h.restoreAll},
	}
	total := 0
	for _, c := range changes {
		total += c.weight
	}
	at := h.rng.IntN(total)
	for _, c := range changes {
		if at -= c.weight; at < 0 {
			text, err := c.make()
			if err != nil {
				text += fmt.Sprintf(" (%v)", err) // for instance, it is gone already
			}
			return text
		}
	}
	panic("unreachable")
}

// functions are the directories of devices that the host had, whether it has them
// now or not.
func (h *host) functions() []string {
	var dirs []string
	for _, name := range h.paths {
		if strings.HasPrefix(name, "bus/") {
			dirs = append(dirs, strings.TrimLeft(string(h.intact[name].Data), "./"))
		}
	}
	return dirs
}

// link is where a bus lists a device.
func (h *host) link(device string) string {
	for _, bus := range []string{"pci", "mdev"} {
		if link := "bus/" + bus + "/devices/" + filepath.Base(device); h.intact[link] != nil {
			return link
		}
	}
	panic(device)
}

func (h *host) with(mode fs.FileMode) []string {
	return slices.DeleteFunc(slices.Clone(h.paths), func(name string) bool { return h.intact[name].Mode.Type() != mode })
}

// files are all attributes, and links all links.
func (h *host) files() []string { return h.with(0) }
func (h *host) links() []string { return h.with(fs.ModeSymlink) }

// nodes are the attributes that count most.
func (h *host) nodes() []string {
	return slices.DeleteFunc(h.files(), func(name string) bool { return filepath.Base(name) != "numa_node" })
}

// put makes a path what it was.
func (h *host) put(name string) error {
	for _, above := range parents(name) {
		info, err := os.Lstat(h.at(above))
		if err == nil && info.IsDir() {
			if err := os.Chmod(h.at(above), 0o755); err != nil {
				return err
			}
			continue
		}
		if err := errors.Join(os.RemoveAll(h.at(above)), os.Mkdir(h.at(above), 0o755)); err != nil {
			return err
		}
	}
	if err := h.drop(name); err != nil {
		return err
	}
	if file := h.intact[name]; file.Mode.Type() == fs.ModeSymlink {
		return os.Symlink(string(file.Data), h.at(name))
	}
	return os.WriteFile(h.at(name), h.intact[name].Data, 0o644)
}

// parents are the directories above a path, the highest first.
func parents(name string) []string {
	var all []string
	for at, letter := range name {
		if letter == '/' {
			all = append(all, name[:at])
		}
	}
	return all
}

// drop removes a path with all that is under it, whatever its permissions.
func (h *host) drop(name string) error {
	err := filepath.WalkDir(h.at(name), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		return os.Chmod(path, 0o755)
	})
	return errors.Join(err, os.RemoveAll(h.at(name)))
}

// restore gives a device all its files, or puts the list of nodes back.
func (h *host) restore() (string, error) {
	device := pick(h.rng, append(h.functions(), "devices/system"))
	var errs []error
	for _, name := range h.paths {
		if strings.HasPrefix(name, device+"/") {
			errs = append(errs, h.put(name))
		}
	}
	if device != "devices/system" {
		errs = append(errs, h.put(h.link(device)))
	}
	return "restore " + device, errors.Join(errs...)
}

func (h *host) restoreAll() (string, error) {
	entries, err := os.ReadDir(h.dir)
	for _, entry := range entries {
		err = errors.Join(err, h.drop(entry.Name()))
	}
	for _, name := range h.paths {
		err = errors.Join(err, h.put(name))
	}
	return "restore everything", err
}

// contents are what an attribute may say, the wrong included.
func contents() []string {
	return []string{
		"0\n", "1\n", "0\n", "1\n", "-1\n", "7\n", "0,1\n", "0-1\n", "4294967296\n", "-2\n", "0x030200\n", "0x10de\n",
		"", "\n", "no number\n", "\x00\x00", " 1 \n", "1\n1\n", strings.Repeat("1", 5000), strings.Repeat("x", 70_000), "\xff\xfe",
	}
}

// rewrite changes an attribute, in place or by another file. Most often it is a
// node.
func (h *host) rewrite() (string, error) {
	name := pick(h.rng, h.files())
	if h.rng.IntN(3) > 0 {
		name = pick(h.rng, h.nodes())
	}
	content := pick(h.rng, contents())
	text := fmt.Sprintf("write %.20q to %s", content, name)
	if h.rng.IntN(2) == 0 {
		return text, h.write(name, content, os.O_WRONLY|os.O_TRUNC)
	}
	if err := h.write(name+"~", content, os.O_WRONLY|os.O_CREATE|os.O_EXCL); err != nil {
		return text, err
	}
	return text + ", a new file", os.Rename(h.at(name+"~"), h.at(name))
}

// write never waits for the reader of a pipe.
func (h *host) write(name, content string, flags int) error {
	f, err := os.OpenFile(h.at(name), flags|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Close())
}

// turn turns an attribute into something that is no file.
func (h *host) turn() (string, error) {
	name := pick(h.rng, h.files())
	if h.rng.IntN(2) == 0 {
		name = pick(h.rng, h.nodes())
	}
	if _, err := os.Lstat(filepath.Dir(h.at(name))); err != nil {
		return "turn " + name, err
	}
	if err := h.drop(name); err != nil {
		return "turn " + name, err
	}
	switch h.rng.IntN(7) {
	case 0:
		return "nothing at " + name, nil
	case 1:
		return "directory at " + name, os.Mkdir(h.at(name), 0o755)
	case 2:
		return "link to a file at " + name, os.Symlink("../"+filepath.Base(filepath.Dir(name))+"/vendor", h.at(name))
	case 3:
		return "link to the outside at " + name, os.Symlink("/etc/hostname", h.at(name))
	default:
		return "pipe at " + name, syscall.Mkfifo(h.at(name), 0o644)
	}
}

// relink re-points a link.
func (h *host) relink() (string, error) {
	name := pick(h.rng, h.links())
	other := string(h.intact[pick(h.rng, h.links())].Data)
	target := pick(h.rng, []string{other, other, other, "nowhere", filepath.Base(name), "/etc", "../../../../../../../../etc", h.at("devices"), "../" + other, "."})
	if err := h.drop(name); err != nil {
		return "link " + name, err
	}
	return "link " + name + " to " + target, os.Symlink(target, h.at(name))
}

// unbind removes a device's link, most often that of its driver, or has the device
// bound to another one.
func (h *host) unbind() (string, error) {
	name := pick(h.rng, h.functions()) + "/" + pick(h.rng, []string{"driver", "driver", "iommu_group", "physfn"})
	if err := h.drop(name); err != nil || h.rng.IntN(2) == 0 {
		return "remove " + name, err
	}
	return "link " + name + " to another", os.Symlink("../../../../bus/pci/drivers/nvidia", h.at(name))
}

// forbid takes the permission to read something.
func (h *host) forbid() (string, error) {
	name := pick(h.rng, slices.Concat(h.files(), h.functions(), h.directories()))
	return "forbid " + name, os.Chmod(h.at(name), 0)
}

// directories are all but the root.
func (h *host) directories() []string {
	all := map[string]bool{}
	for _, name := range h.paths {
		for _, above := range parents(name) {
			all[above] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// remove removes a device, with what is under it. Its link may stay.
func (h *host) remove() (string, error) {
	device := pick(h.rng, h.functions())
	if err := h.drop(device); err != nil || h.rng.IntN(3) == 0 {
		return "remove the directory of " + device, err
	}
	return "remove " + device, h.drop(h.link(device))
}

// move gives a device another place and another node, as a device that is added
// again elsewhere.
func (h *host) move() (string, error) {
	device, beside := pick(h.rng, h.functions()), pick(h.rng, h.functions())
	to := filepath.Join(filepath.Dir(beside), filepath.Base(device))
	if h.rng.IntN(3) == 0 {
		to = filepath.Join(beside, filepath.Base(device))
	}
	text := "move " + device + " to " + to
	if err := errors.Join(os.Rename(h.at(device), h.at(to)), h.drop(h.link(device))); err != nil {
		return text, err
	}
	up := strings.Repeat("../", strings.Count(h.link(device), "/"))
	return text, errors.Join(os.Symlink(up+to, h.at(h.link(device))), h.write(to+"/numa_node", pick(h.rng, []string{"0\n", "1\n"}), os.O_WRONLY|os.O_TRUNC))
}

// replace replaces a directory by a copy of it in which a node is another one. Who
// holds the old directory open still sees all of it.
func (h *host) replace() (string, error) {
	name := pick(h.rng, h.directories())
	text := "replace " + name
	h.replaced++
	old := filepath.Join(h.attic, fmt.Sprint(h.replaced))
	if err := os.Rename(h.at(name), old); err != nil {
		return text, err
	}
	if err := copyTree(old, h.at(name)); err != nil {
		return text, err
	}
	under := slices.DeleteFunc(h.nodes(), func(file string) bool { return !strings.HasPrefix(file, name+"/") })
	if len(under) == 0 {
		return text, nil
	}
	node, content := pick(h.rng, under), pick(h.rng, []string{"0\n", "1\n", "-1\n"})
	return fmt.Sprintf("%s, and write %q to %s", text, content, node), h.write(node, content, os.O_WRONLY|os.O_TRUNC)
}

// copyTree copies a directory with its links and pipes. What may not be read stays
// unreadable.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(from, path)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		copied := filepath.Join(to, rel)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch info.Mode().Type() {
		case fs.ModeDir:
			return os.Mkdir(copied, info.Mode().Perm()|0o300)
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			return errors.Join(err, os.Symlink(target, copied))
		case fs.ModeNamedPipe:
			return syscall.Mkfifo(copied, 0o644)
		}
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		return os.WriteFile(copied, data, info.Mode().Perm())
	})
}
