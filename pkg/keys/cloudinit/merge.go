// Package cloudinit adds to a VM's cloud-init data a script that copies the topology file from
// QEMU's fw_cfg device to NCCL's place for it. Bytes in, bytes out.
package cloudinit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"hook-sidecar/pkg/words/gzipped"
)

// Merge returns user data that also runs Script in each boot. Data that does so already stays as it
// is; compressed data is decompressed, as cloud-init does first. The error shows nothing of the
// data: it may have passwords.
//
// The given data becomes one part of a MIME message: as it is where it is such a message itself,
// else in base64, because cloud-init decodes a plain part as ASCII (email.message, get_payload) and
// a boundary ends it. cloud-init finds the type of a text/plain part from its first bytes, as
// without a message (cloudinit/user_data.py, _process_msg).
func Merge(userData []byte) ([]byte, error) {
	userData, err := gzipped.Decompress(userData, maxPlain)
	if err != nil {
		return nil, fmt.Errorf("read the user data: %w", err)
	}

	switch {
	case HasReader(userData):
		return userData, nil
	case len(bytes.TrimSpace(userData)) == 0:
		return []byte(boothook), nil
	case isMIME(userData):
		if !utf8.Valid(userData) {
			return nil,
				errors.New("the user data is a MIME message that is not UTF-8, which cloud-init " +
					"does not read")
		}
		return message(userData, string(userData)), nil

	case bytes.HasPrefix(userData, []byte(mangledGzip)):
		return nil,
			errors.New("KubeVirt passes user data as text, and compressed data of a Secret is lost")

	case !isCloudInit(userData):
		return nil, errors.New("the user data begins with nothing that cloud-init knows")
	}

	return message(userData, "Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n"+
		lines(userData)), nil
}

// HasReader reports whether plain user data has the boothook that Merge adds.
func HasReader(userData []byte) bool { return bytes.Contains(userData, []byte(boothook)) }

// message returns a MIME message with a part and the boothook.
func message(userData []byte, part string) []byte {
	// A boundary must not be in the part. It is made from the data, so that each call writes the
	// same.
	boundary := ""
	for sum := sha256.Sum256(userData); boundary == "" || strings.Contains(part,
		boundary); sum = sha256.Sum256(sum[:]) {
		boundary = fmt.Sprintf("hook-sidecar-%x", sum[:8])
	}

	return fmt.Appendf(nil, `Content-Type: multipart/mixed; boundary="%[1]s"
MIME-Version: 1.0

--%[1]s
%[2]s
--%[1]s
Content-Type: text/cloud-boothook
Content-Disposition: attachment; filename="nccl-topology"

%[3]s
--%[1]s--
`, boundary, part, boothook)
}

// lines encodes data in base64, in lines as long as MIME allows (RFC 2045, 6.8).
func lines(data []byte) string {
	const longest = 76
	var all []string
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(data)), longest) {
		all = append(all, string(line))
	}

	return strings.Join(all, "\n")
}

// isMIME reports what cloud-init takes for a MIME message (cloudinit/user_data.py, convert_string).
func isMIME(data []byte) bool {
	const looked = 4096
	return bytes.Contains(bytes.ToLower(data[:min(len(data), looked)]), []byte("mime-version:"))
}

// isCloudInit reports whether data begins as one of cloud-init's formats
// (cloudinit/handlers/__init__.py, INCLUSION_TYPES_MAP and type_from_starts_with), and not as
// those of other agents: Ignition JSON, Windows' cloudbase-init scripts.
func isCloudInit(data []byte) bool {
	const longest = 64 // more than the longest beginning
	start := bytes.TrimSpace(data)
	start = bytes.ToLower(start[:min(len(start), longest)])
	return slices.ContainsFunc([]string{
		"#!", "#cloud-config", "#include", "#part-handler", "#cloud-boothook", "## template: jinja",
	}, func(known string) bool { return bytes.HasPrefix(start, []byte(known)) })
}

// mangledGzip is the beginning of compressed data after KubeVirt has made JSON of it, which loses
// bytes that are not UTF-8 (pkg/hooks/manager.go, preCloudInitIsoDataToJSON).
const mangledGzip = "\x1f\ufffd"

// maxPlain limits the bytes of decompressed user data. Kubernetes limits an object to 1.5 MiB.
const maxPlain = 2 << 20

// File is NCCL's default path of a topology file (NVIDIA/nccl src/graph/topo.cc,
// ncclTopoGetSystem).
const File = "/var/run/nvidia-topologyd/virtualTopology.xml"

// Script copies the topology file of this boot from guest.NCCLEntry, which is in base64, to File,
// readable for all users. Without the entry it does nothing.
const Script = `#!/bin/sh
# Copies the topology file that the hypervisor passes to where NCCL looks for it.
set -eu
umask 022
modprobe -q qemu_fw_cfg || :
entry=/sys/firmware/qemu_fw_cfg/by_name/opt/org.kubevirt.hostdev/nccl-topology/raw
[ -e "$entry" ] || exit 0
mkdir -p /var/run/nvidia-topologyd
base64 -d "$entry" > /var/run/nvidia-topologyd/virtualTopology.new
mv /var/run/nvidia-topologyd/virtualTopology.new /var/run/nvidia-topologyd/virtualTopology.xml
`

// boothook is the script as user data. cloud-init runs a boothook in every boot, before the modules
// of cloud-config, and merges it with nothing (cloudinit/handlers/boot_hook.py). write_files and
// runcmd would not run in a guest that has booted before: KubeVirt gives each start of a VM the
// same instance-id (pkg/cloud-init/cloud-init.go, cloudInitUUIDFromVMI).
const boothook = "#cloud-boothook\n" + Script
