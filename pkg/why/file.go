package why

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
)

// AddGuestFile adds what a program in the guest printed, such as dmesg or nvidia-smi.
func (e *Evidence) AddGuestFile(name string, data []byte) error {
	e.Files = append(e.Files, name)
	text, isText := decodeText(data)
	if !isText || len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("read %s: it is empty or not text", name)
	}

	for line := range strings.SplitSeq(string(text), "\n") {
		e.add(message{
			source: "guest, " + name, text: strings.TrimSuffix(line, "\r"), isLog: true,
		})
	}

	return nil
}

// AddFile adds a user's file: objects or a log, or several in a tar archive, of which it leaves out
// what is empty or not text.
func (e *Evidence) AddFile(name string, data []byte) error {
	e.Files = append(e.Files, name)
	switch text, isText := decodeText(data); {
	case isTar(data):
		return e.addArchive(name, data)
	case !isText:
		return fmt.Errorf("read %s: it is not text", name)
	case len(bytes.TrimSpace(text)) == 0:
		return fmt.Errorf("read %s: it is empty", name)
	default:
		e.Add(name, text)
	}

	return nil
}

// isTar reports whether data is a tar archive (POSIX.1-2017, pax: "ustar Interchange Format").
func isTar(data []byte) bool {
	const at, magic = 257, "ustar"
	return len(data) > at && bytes.HasPrefix(data[at:], []byte(magic))
}

// addArchive adds the text files of a tar archive.
func (e *Evidence) addArchive(name string, data []byte) error {
	archive, count := tar.NewReader(bytes.NewReader(data)), 0
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) && count == 0 {
			return fmt.Errorf("read %s: it has no text file", name)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}

		var file []byte
		if err == nil {
			file, err = io.ReadAll(archive)
		}

		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}

		if text, isText := decodeText(file); isText && len(bytes.TrimSpace(text)) > 0 {
			count++
			e.Add(name+": "+header.Name, text)
		}
	}
}

// decodeText returns a text as UTF-8, and whether it is text. PowerShell writes the output of
// kubectl as UTF-16.
func decodeText(data []byte) (text []byte, isText bool) {
	orders := map[string]binary.ByteOrder{
		"\xff\xfe": binary.LittleEndian, "\xfe\xff": binary.BigEndian,
	}

	if order := orders[string(data[:min(2, len(data))])]; order != nil && len(data)%2 == 0 {
		units := make([]uint16, len(data)/2-1)
		for i := range units {
			units[i] = order.Uint16(data[2*i+2:])
		}
		return []byte(string(utf16.Decode(units))), true
	}

	const looked = 8000 // as git does (buffer_is_binary in xdiff-interface.c)
	return bytes.TrimPrefix(data, []byte("\ufeff")), bytes.IndexByte(data[:min(looked, len(data))],
		0) < 0
}

// Missing returns an error if the files that were added are about other VMs alone, about several of
// this name, or about none.
func (e *Evidence) Missing() error {
	var same []string
	all := slices.Sorted(maps.Keys(e.found))
	for _, vm := range all {
		namespace, name, isFull := strings.Cut(vm, "/")
		if !isFull {
			namespace, name = "", vm
		}

		if name == e.Name && e.isNamespace(namespace) && (isFull || len(all) == 1) {
			same = append(same, vm)
		}
	}

	asked := strings.TrimPrefix(e.Namespace+"/"+e.Name, "/")
	switch {
	case len(same) > 1:
		return fmt.Errorf("the files have several VMs of this name: %s", strings.Join(same, ", "))
	case len(same) == 1 || slices.Contains(all, e.Name) || len(all) == 0 && e.hasText:
		return nil
	case len(all) == 0:
		return fmt.Errorf("the files have no VM %s, and no line of a log", asked)
	}

	const shown = 10
	more := ""
	if len(all) > shown {
		more, all = fmt.Sprintf(" and %d more", len(all)-shown), all[:shown]
	}

	return fmt.Errorf("the files have no VM %s; they have %s%s", asked, strings.Join(all, ", "),
		more)
}
