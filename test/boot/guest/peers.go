//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hook-sidecar/test/boot/pid1"
)

// targets is where nvmet is configured (Linux drivers/nvme/target/configfs.c).
const targets = "/sys/kernel/config/nvmet/subsystems"

// askPeers asks the kernel for each two NVMe controllers whether the disk of one may use the memory
// of the other: nvmet takes a namespace with p2pmem only if it may (drivers/nvme/target/core.c,
// nvmet_p2pmem_ns_enable). Without the module nvmet it asks nothing.
func askPeers() error {
	if _, err := os.Stat("/sys/module/nvmet"); errors.Is(err, os.ErrNotExist) {
		return nil
	}

	controllers, err := filepath.Glob("/sys/class/nvme/nvme*")
	mountErr := pid1.Mount("configfs", "/sys/kernel/config", "configfs", "")
	if err := errors.Join(err, mountErr); err != nil {
		return err
	}

	for _, owner := range controllers {
		for _, other := range controllers {
			if owner == other {
				continue
			}
			if err := askPeer(owner, other); err != nil {
				return err
			}
		}
	}

	return nil
}

// askPeer asks whether the disk of a controller may use the memory of an owner.
func askPeer(owner, controller string) error {
	target := filepath.Join(targets, filepath.Base(owner)+filepath.Base(controller))
	namespace := filepath.Join(target, "namespaces", "1")
	for _, dir := range []string{target, namespace} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}

	device := "/dev/" + filepath.Base(controller) + "n1"
	if err := errors.Join(put(namespace, "device_path", device),
		put(namespace, "p2pmem", read(owner, "address"))); err != nil {
		return err
	}

	answer := "allowed"
	if put(namespace, "enable", "1") != nil {
		answer = "refused"
	}

	fmt.Println("GUEST-PEER", read(owner, "address"), read(controller, "address"), answer)
	return nil
}

func put(dir, name, value string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644)
}
