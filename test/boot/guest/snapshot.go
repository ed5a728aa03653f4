//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// program is the program under test, in a guest that has it.
const program = "/hook-sidecar"

// snapshot lets the program write a snapshot of this guest to the disk with the
// serial number "snapshot", or to the console in a guest that has none.
func snapshot(devices []string) error {
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	at := slices.IndexFunc(devices, func(d string) bool { return label(d) == "snapshot" })
	if at < 0 {
		return toConsole()
	}

	disks, err := filepath.Glob(filepath.Join(devices[at], "virtio*/block/*"))
	if err != nil || len(disks) != 1 {
		return fmt.Errorf("%d disks at %s: %w", len(disks), devices[at], err)
	}

	disk, err := os.OpenFile(filepath.Join("/dev", filepath.Base(disks[0])), os.O_WRONLY, 0)
	if err != nil {
		return err
	}

	command := exec.Command(program, "snapshot")
	command.Stdout, command.Stderr = disk, os.Stderr
	return errors.Join(command.Run(), disk.Sync(), disk.Close())
}

// chunk is how many bytes of a snapshot one line has.
const chunk = 600

// toConsole prints the snapshot compressed: each character on a console costs an
// exit of the emulated CPU.
func toConsole() error {
	command := exec.Command(program, "snapshot")
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return fmt.Errorf("%s snapshot: %w", program, err)
	}

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text); err != nil {
		return err
	}

	if err := z.Close(); err != nil {
		return err
	}

	for data := range slices.Chunk(packed.Bytes(), chunk) {
		fmt.Println("GUEST-SNAPSHOT", base64.StdEncoding.EncodeToString(data))
	}

	return nil
}
