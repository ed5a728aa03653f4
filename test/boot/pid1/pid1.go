//go:build linux

// Package pid1 is what the first process of a test's guest has to do.
package pid1

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Run runs the guest's work, prints how it ended in lines that begin with the
// name, and powers the machine off, unless the kernel's command line has the word stays.
func Run(name string, work func() error) {
	if err := work(); err != nil {
		fmt.Println(name+"-ERROR", err)
	}

	fmt.Println(name + "-END")
	if words, _ := os.ReadFile("/proc/cmdline"); slices.Contains(strings.Fields(string(words)),
		"stays") {
		for {
			time.Sleep(time.Hour)
		}
	}

	syscall.Sync()

	// The console's buffer has to be empty before the machine powers off.
	time.Sleep(100 * time.Millisecond)
	if err := syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println(name+"-ERROR power off:", err)
	}

	select {}
}

// Mount mounts a file system on a directory that it makes.
func Mount(source, target, kind, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}

	if err := syscall.Mount(source, target, kind, 0, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}

// LoadModules loads /modules/*.ko in the order of their names, each with the
// parameters in the file NAME.ko.parameters.
func LoadModules() error {
	files, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}

	slices.Sort(files)

	for _, name := range files {
		module, err := os.ReadFile(name)
		if err != nil {
			return err
		}

		parameters, err := os.ReadFile(name + ".parameters")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}

		parameters = append(parameters, 0)
		_, _, code := syscall.Syscall(syscall.SYS_INIT_MODULE, uintptr(unsafe.Pointer(&module[0])),
			uintptr(len(module)), uintptr(unsafe.Pointer(&parameters[0])))
		if code != 0 && code != syscall.EEXIST {
			return fmt.Errorf("load %s: %w", name, code)
		}
	}

	return nil
}
