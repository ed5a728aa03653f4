package boot

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// KernelVariable names the environment variable with the directory of an unpacked
// Debian kernel package (boot/vmlinuz-*, lib/modules/*). Its nvme driver must be
// built in, as in linux-image-cloud-amd64. The tests are skipped without it.
const KernelVariable = "BOOT_KERNEL"

// GuestInitramfs returns the file system of the guest under test. Its modules give disks and NICs
// their names.
func GuestInitramfs(kernelDir string) Initramfs {
	return Initramfs{
		Program: "hook-sidecar/test/boot/guest", Kernel: kernelDir,
		Modules: []string{"virtio_pci", "virtio_blk", "virtio_net"},
	}
}

// KernelIn finds the kernel in the directory of an unpacked package.
func KernelIn(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("find kernel in %s: %d files boot/vmlinuz-*, want 1", dir, len(found))
	}
	return found[0], nil
}

// Initramfs is a guest's first file system: a Go program of this module as
// /init, and kernel modules with their dependencies as /modules/NNN-*.ko, numbered
// in the order of loading.
type Initramfs struct {
	Program      string   // import path
	Architecture string   // GOARCH, amd64 where empty
	Kernel       string   // directory of the unpacked kernel package
	Modules      []string // names, each with the module's parameters after a space
	Binary       string   // file of the program under test, as /hook-sidecar; "" for none
}

// Write makes the archive.
func (i Initramfs) Write(file string) error {
	init := file + ".init"
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", init, i.Program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+
		cmp.Or(i.Architecture, "amd64"))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the guest's init: %w: %s", err, out)
	}

	program, err := os.ReadFile(init)
	if err != nil {
		return err
	}

	parameters := map[string]string{}
	var names []string
	for _, entry := range i.Modules {
		name, text, _ := strings.Cut(entry, " ")
		names, parameters[name] = append(names, name), text
	}

	modules, err := withDependencies(filepath.Join(i.Kernel, "lib", "modules"), names)
	if err != nil {
		return err
	}

	var archive bytes.Buffer
	cpioEntry(&archive, "dev", 0o40755, 0, nil)
	cpioEntry(&archive, "dev/console", 0o20600, 5<<8|1, nil)
	cpioEntry(&archive, "init", 0o100755, 0, program)

	if i.Binary != "" {
		binary, err := os.ReadFile(i.Binary)
		if err != nil {
			return err
		}
		cpioEntry(&archive, "hook-sidecar", 0o100755, 0, binary)
	}

	cpioEntry(&archive, "modules", 0o40755, 0, nil)

	for i, module := range modules {
		file := fmt.Sprintf("modules/%03d-%s.ko", i, module.name)
		cpioEntry(&archive, file, 0o100644, 0, module.data)
		cpioEntry(&archive, file+".parameters", 0o100644, 0, []byte(parameters[module.name]))
	}

	cpioEntry(&archive, "TRAILER!!!", 0, 0, nil)
	return os.WriteFile(file, archive.Bytes(), 0o644)
}

// cpioEntry appends a file in the format that the kernel unpacks (Linux
// Documentation/driver-api/early-userspace/buffer-format.rst); device is the
// major number times 256 plus the minor.
func cpioEntry(archive *bytes.Buffer, name string, mode, device int, data []byte) {
	fmt.Fprintf(archive, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		0, mode, 0, 0, 1, 0, len(data), 0, 0, device>>8, device&0xff, len(name)+1, 0)
	pad := func() {
		for archive.Len()%4 != 0 {
			archive.WriteByte(0)
		}
	}

	archive.WriteString(name + "\x00")
	pad()
	archive.Write(data)
	pad()
}

// module is a kernel module, unpacked.
type module struct {
	name string
	data []byte
}

// withDependencies reads modules, each after those that it needs.
func withDependencies(dir string, names []string) ([]module, error) {
	files, err := moduleFiles(dir)
	if err != nil {
		return nil, err
	}

	builtIn, err := builtIn(dir)
	if err != nil {
		return nil, err
	}

	var list []module
	var add func(name string) error
	add = func(name string) error {
		name = strings.ReplaceAll(name, "-", "_")
		if slices.ContainsFunc(list, func(m module) bool { return m.name == name }) {
			return nil
		}
		if builtIn[name] {
			return nil
		}
		if files[name] == "" {
			return fmt.Errorf("kernel module %s is not in %s", name, dir)
		}

		data, err := unpacked(files[name])
		if err != nil {
			return err
		}

		needs, err := dependencies(data)
		if err != nil {
			return fmt.Errorf("kernel module %s: %w", files[name], err)
		}

		for _, need := range needs {
			if err := add(need); err != nil {
				return err
			}
		}

		list = append(list, module{name, data})
		return nil
	}

	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}

	return list, nil
}

// builtIn returns the modules that are parts of the kernel.
func builtIn(dir string) (map[string]bool, error) {
	lists, err := filepath.Glob(filepath.Join(dir, "*", "modules.builtin"))
	names := map[string]bool{}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}

		for _, file := range strings.Fields(string(text)) {
			names[strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".ko"), "-",
				"_")] = true
		}
	}

	return names, err
}

// moduleFiles maps the names of modules to their files.
func moduleFiles(dir string) (map[string]string, error) {
	files := map[string]string{}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}

	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(strings.TrimSuffix(filepath.Base(path), ".xz"),
			".ko"); err == nil && ok {
			files[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})

	return files, err
}

// unpacked reads a module, which Debian 13 compresses.
func unpacked(file string) ([]byte, error) {
	if !strings.HasSuffix(file, ".xz") {
		return os.ReadFile(file)
	}

	data, err := exec.Command("xz", "-dc", file).Output()
	if err != nil {
		return nil, fmt.Errorf("xz %s: %w", file, err)
	}

	return data, nil
}

// dependencies returns the modules that a module names in its own header.
func dependencies(data []byte) ([]string, error) {
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}

	section := file.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no .modinfo")
	}

	text, err := section.Data()
	if err != nil {
		return nil, err
	}

	for _, field := range strings.Split(string(text), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}

	return nil, nil
}
