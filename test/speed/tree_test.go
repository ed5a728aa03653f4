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
// itself, and nothing outside, wherever its links lead. What is random follows from the
// seed.
type host struct {
	dir    *os.Root
	intact fstest.MapFS // the host as it was
	paths  []string     // of intact with the directories, sorted
	rng    *rand.Rand
}

func newHost(dir *os.Root, intact fstest.MapFS, seed uint64) *host {
	all := map[string]bool{}
	for name := range intact {
		for ; name != "."; name = filepath.Dir(name) {
			all[name] = true
		}
	}

	return &host{
		dir:    dir,
		intact: intact,
		paths:  slices.Sorted(maps.Keys(all)),
		rng:    rand.New(rand.NewPCG(seed, seed)),
	}
}

// pick returns a path whose name in its directory matches a pattern.
func (h *host) pick(pattern string) string {
	matching := slices.DeleteFunc(slices.Clone(h.paths), func(name string) bool {
		matches, err := filepath.Match(pattern, filepath.Base(name))
		return err != nil || !matches
	})
	return matching[h.rng.IntN(len(matching))]
}

// link is where a bus lists a device, and device the directory of one that it listed.
func (h *host) device() (link, device string) {
	links := slices.DeleteFunc(slices.Clone(h.paths), func(name string) bool {
		return !strings.HasPrefix(name, "bus/") || h.intact[name] == nil
	})
	link = links[h.rng.IntN(len(links))]
	return link, strings.TrimLeft(string(h.intact[link].Data), "./")
}

// change makes a random change and describes it, with the error where its path is gone
// already.
func (h *host) change() string {
	var text string
	var err error
	switch kind := h.rng.IntN(12); {
	case kind < 3:
		link, device := h.device()
		text, err = "restore "+device, h.restore(link, device)

	case kind < 6:
		text, err = h.replace(h.pick("numa_node")) // the attribute that counts most
	case kind < 9:
		text, err = h.replace(h.pick("*"))
	case kind < 11:
		text, err = h.move()
	default:
		text, err = "restore everything", h.restore("bus", "devices", "kernel")
	}

	if err != nil {
		text += fmt.Sprintf(" (%v)", err)
	}

	return text
}

// restore puts back what was under some directories, or at a path.
func (h *host) restore(names ...string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, h.drop(name))
	}

	for _, path := range h.paths {
		if slices.ContainsFunc(names, func(name string) bool {
			return path == name || strings.HasPrefix(path, name+"/")
		}) {
			errs = append(errs, h.put(path))
		}
	}

	return errors.Join(errs...)
}

// put makes a path what it was, and directories of what is above it.
func (h *host) put(name string) error {
	for at, letter := range name + "/" {
		above := name[:at]
		if letter != '/' || h.intact[above] != nil {
			continue
		}

		if info, err := h.dir.Lstat(above); err != nil || !info.IsDir() {
			if err := errors.Join(h.drop(above), h.dir.Mkdir(above, 0o755)); err != nil {
				return err
			}
		}

		if err := h.dir.Chmod(above, 0o755); err != nil {
			return err
		}
	}

	file := h.intact[name]
	if file == nil {
		return nil
	}

	if err := h.drop(name); err != nil {
		return err
	}
	if file.Mode.Type() == fs.ModeSymlink {
		return h.dir.Symlink(string(file.Data), name)
	}

	return h.dir.WriteFile(name, file.Data, 0o644)
}

// drop removes a path, if it is there, with all that is under it, whatever its
// permissions.
func (h *host) drop(name string) error {
	info, err := h.dir.Lstat(name)
	if err != nil {
		return nil
	}

	if info.IsDir() {
		err = fs.WalkDir(h.dir.FS(), name, func(path string, entry fs.DirEntry, err error) error {
			if entry.IsDir() {
				return h.dir.Chmod(path, 0o755)
			}
			return nil
		})
	}

	return errors.Join(err, h.dir.RemoveAll(name))
}

// contents returns what an attribute may contain, the invalid included.
func contents() []string {
	return []string{
		"0\n", "1\n", "0\n", "1\n", "-1\n", "7\n", "0,1\n", "0-1\n", "4294967296\n", "-2\n",
		"0x030200\n", "0x10de\n",
		"", "\n", "no number\n", "\x00\x00", " 1 \n", "1\n1\n", strings.Repeat("1", 5000),
		strings.Repeat("x", 70_000), "\xff\xfe",
	}
}

// replace puts something else at a path: another content, a link, a pipe, a directory,
// nothing, or what nobody may read.
func (h *host) replace(name string) (text string, err error) {
	if _, err := h.dir.Lstat(name); err != nil {
		return "replace " + name, err
	}
	if h.rng.IntN(6) == 0 {
		return "forbid " + name, h.dir.Chmod(name, 0)
	}

	isDirectory := h.intact[name] == nil
	if err := h.drop(name); err != nil {
		return "remove " + name, err
	}

	switch kind := h.rng.IntN(8); {
	case kind < 1 || isDirectory && kind < 5:
		return "remove " + name, nil
	case kind < 5:
		content := contents()[h.rng.IntN(len(contents()))]
		return fmt.Sprintf("write %.20q to %s", content, name), h.dir.WriteFile(name,
			[]byte(content), 0o644)

	case kind < 6:
		return "pipe at " + name, syscall.Mkfifo(filepath.Join(h.dir.Name(), name), 0o644)
	case kind < 7:
		return "directory at " + name, h.dir.Mkdir(name, 0o755)
	}

	_, device := h.device()
	targets := []string{
		device, "../" + device, "nowhere", filepath.Base(name), "/etc", "/etc/hostname",
		"../../../../../../../../etc", filepath.Join(h.dir.Name(), "devices"), ".",
	}

	target := targets[h.rng.IntN(len(targets))]
	return "link " + name + " to " + target, h.dir.Symlink(target, name)
}

// move gives a device another place and another node, as a device that is added again
// elsewhere.
func (h *host) move() (string, error) {
	link, device := h.device()
	_, beside := h.device()
	to := filepath.Join(filepath.Dir(beside), filepath.Base(device))
	if h.rng.IntN(3) == 0 {
		to = filepath.Join(beside, filepath.Base(device))
	}

	text := "move " + device + " to " + to
	if err := errors.Join(h.dir.Rename(device, to), h.drop(link)); err != nil {
		return text, err
	}

	up := strings.Repeat("../", strings.Count(link, "/"))
	if err := errors.Join(h.dir.Symlink(up+to, link), h.drop(to+"/numa_node")); err != nil {
		return text, err
	}

	return text, h.dir.WriteFile(to+"/numa_node", []byte(fmt.Sprintln(h.rng.IntN(2))), 0o644)
}
