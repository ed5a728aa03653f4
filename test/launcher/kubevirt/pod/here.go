//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mount is a file system of the pod.
type mount struct {
	source, target, kind string
	flags                uintptr
	options              string
}

// enter makes the root file system of a pod, with a layer in memory, and enters it.
// It has no /dev/kvm: this machine's may not be usable.
func enter(root, layer, work string) error {
	memory := filepath.Join(work, "memory")
	pod := filepath.Join(memory, "root")
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		os.MkdirAll(memory, 0o755), unix.Mount("tmpfs", memory, "tmpfs", 0, ""),
		makeAll(filepath.Join(memory, "upper"), filepath.Join(memory, "work"), pod))
	if err != nil {
		return fmt.Errorf("mount memory: %w", err)
	}

	for _, m := range []mount{
		{"overlay", "", "overlay", 0, "lowerdir=" + layer + ":" + root + ",upperdir=" + memory +
			"/upper,workdir=" + memory + "/work"},
		{"proc", "proc", "proc", 0, ""},
		{"sysfs", "sys", "sysfs", 0, ""},
		// KubeVirt reads the pod's CPUs from cgroup version 1 where this is not cgroup2
		// (pkg/virt-launcher/virtwrap/util/libvirt_helper.go, GetPodCPUSet).
		{"tmpfs", "sys/fs/cgroup", "tmpfs", 0, ""},
		{"tmpfs", "dev", "tmpfs", 0, "mode=755"},
		{"devpts", "dev/pts", "devpts", 0, "newinstance,ptmxmode=666"},
		{"tmpfs", "dev/shm", "tmpfs", 0, "mode=1777"},
		{work, lab, "", unix.MS_BIND, ""},
		// Of the host's devices KubeVirt reads the NUMA node.
		{filepath.Join(work, "pci"), "sys/bus/pci/devices", "", unix.MS_BIND, ""},
	} {
		if _, err := os.Stat(m.source); m.flags == unix.MS_BIND && errors.Is(err, os.ErrNotExist) {
			continue
		}

		target := filepath.Join(pod, m.target)
		if err := errors.Join(os.MkdirAll(target, 0o755),
			unix.Mount(m.source, target, m.kind, m.flags, m.options)); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.source, target, err)
		}
	}

	if err := errors.Join(unix.Chroot(pod), os.Chdir("/"),
		unix.Sethostname([]byte("virt-launcher-testvm"))); err != nil {
		return fmt.Errorf("enter %s: %w", pod, err)
	}

	return errors.Join(devices(), cpus())
}

// enterNode enters namespaces in a machine that has the pod's root file system.
func enterNode(work string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}

	// A volume of the pod, in which libvirt makes its directory.
	pages := "/dev/hugepages"
	return errors.Join(unix.Mount(work, lab, "", unix.MS_BIND, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		os.MkdirAll(pages, 0o755), unix.Mount("hugetlbfs", pages, "hugetlbfs", 0, ""),
		makeAll(pages+"/libvirt/qemu"), own(pages),
		unix.Sethostname([]byte("virt-launcher-testvm")))
}

func devices() error {
	old := unix.Umask(0)
	defer unix.Umask(old)
	err := errors.Join(os.Mkdir("/dev/net", 0o755), os.Symlink("pts/ptmx", "/dev/ptmx"),
		os.Symlink("/proc/self/fd", "/dev/fd"))
	for name, number := range map[string][2]uint32{
		"null": {1, 3}, "zero": {1, 5}, "random": {1, 8}, "urandom": {1, 9}, "net/tun": {10, 200},
	} {
		err = errors.Join(err,
			unix.Mknod("/dev/"+name, unix.S_IFCHR|0o666, int(unix.Mkdev(number[0], number[1]))))
	}

	return err
}

// cpus gives the pod the CPUs of the file cpuset.
func cpus() error {
	list, err := os.ReadFile(filepath.Join(lab, "cpuset"))
	dir := "/sys/fs/cgroup/cpuset"
	return errors.Join(err, os.Mkdir(dir, 0o755), os.WriteFile(dir+"/cpuset.cpus", list, 0o644))
}

func makeAll(dirs ...string) (err error) {
	for _, dir := range dirs {
		err = errors.Join(err, os.MkdirAll(dir, 0o755))
	}
	return err
}
