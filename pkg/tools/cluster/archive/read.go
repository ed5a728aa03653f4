package archive

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf16"

	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/words/gzipped"
)

// Input is what a user named: one text, a tar archive, or a directory.
type Input struct {
	Name      string // as the user has it
	IsPacked  bool   // Files are those of an archive or a directory
	Collected *Index // nil unless collect wrote it
	Files     []File // text; of what collect wrote without its Index
	Skipped   []Gap  // files that gzip has compressed, and that cannot be read

	unpacked int // bytes that were compressed in Files
}

// maxUnpacked limits the bytes of all files together that gzip has compressed in an archive or a
// directory: a few KiB each can be any number.
const maxUnpacked = 64 << 20

// Parse reads a user's file. Of a tar archive it leaves out what is empty or not text.
func Parse(name string, data []byte) (Input, error) {
	if IsTar(data) {
		return unpack(name, data)
	}

	text, isText := Decode(data)
	switch {
	case !isText:
		return Input{}, fmt.Errorf("read %s: it is not text", name)
	case len(bytes.TrimSpace(text)) == 0:
		return Input{}, fmt.Errorf("read %s: it is empty", name)
	}

	return Input{Name: name, Files: []File{{Name: name, Data: text}}}, nil
}

// tarBlock is how many bytes a header has, and the block of zeros that ends an archive.
const tarBlock = 512

// IsTar reports whether data is a tar archive (POSIX.1-2017, pax: "ustar Interchange Format").
func IsTar(data []byte) bool {
	const at, magic = 257, "ustar"
	return len(data) > at && bytes.HasPrefix(data[at:], []byte(magic))
}

// errCut is the error of an archive whose end is missing.
var errCut = errors.New("its end is missing: copy the whole archive")

// unpack reads a tar archive.
func unpack(name string, data []byte) (Input, error) {
	blocks := bytes.NewReader(data)
	in, r := Input{Name: name, IsPacked: true}, tar.NewReader(blocks)
	for {
		begin := len(data) - blocks.Len()
		header, err := r.Next()
		if errors.Is(err, io.EOF) && endsInZeros(data[begin:len(data)-blocks.Len()]) {
			return in.settled()
		}

		var file []byte
		if err == nil {
			// A size that is more than there is ends in an error, and takes no memory before.
			file = make([]byte, min(header.Size, int64(len(data))))
			_, err = io.ReadFull(r, file)
		}

		// Without a block of zeros at its end the archive was cut between two files.
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errCut
		}

		if err != nil {
			return in, fmt.Errorf("read %s: %w", name, err)
		}

		in.add(header.Name, file)
	}
}

// endsInZeros reports whether the last block is that which ends an archive: a header, also the one of
// a long name, has something else.
func endsInZeros(read []byte) bool {
	return bytes.HasSuffix(read, make([]byte, tarBlock))
}

// ReadDirectory reads the text files of a directory, such as that of an archive. All its files may
// have limit bytes.
func ReadDirectory(name string, directory fs.FS, limit int64) (Input, error) {
	in, left := Input{Name: name, IsPacked: true}, limit
	err := fs.WalkDir(directory, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}

		if left -= info.Size(); left < 0 {
			return fmt.Errorf("%s: more than %d bytes in all", file, limit)
		}

		data, err := fs.ReadFile(directory, file)
		in.add(file, data)
		return err
	})
	if err != nil {
		return in, fmt.Errorf("read %s: %w", name, err)
	}

	return in.settled()
}

// add adds a file that is text, also compressed by gzip.
func (in *Input) add(name string, data []byte) {
	// A file that is not compressed passes even if the limit is used up: only the bytes that
	// decompression adds count.
	plain, err := gzipped.Decompress(data, max(maxUnpacked-in.unpacked, len(data)))
	if err == nil && IsTar(plain) {
		err = errors.New("it is an archive: name it with an -f of its own")
	}

	if err != nil {
		gap := Gap{What: name, Why: fmt.Sprintf("read %s: %s: %s", in.Name, name, err)}
		in.Skipped = append(in.Skipped, gap)
		return
	}

	in.unpacked += len(plain) - len(data)
	name = strings.TrimSuffix(name, ".gz")
	if text, isText := Decode(plain); isText && len(bytes.TrimSpace(text)) > 0 {
		in.Files = append(in.Files, File{Name: path.Clean(name), Data: text})
	}
}

// knownVersion is the version of an Index. It rises when a field or a file changes its meaning.
const knownVersion = 1

// settled reads the Index, and names files as in the directory that has it.
func (in Input) settled() (Input, error) {
	switch {
	case len(in.Files) > 0:
	case len(in.Skipped) > 0:
		return in, errors.New(in.Skipped[0].Why)
	default:
		return in, fmt.Errorf("read %s: it has no text file", in.Name)
	}

	// Users pack the directory again, or its parent, so the Index says where the archive begins.
	at := slices.IndexFunc(in.Files, func(f File) bool { return path.Base(f.Name) == IndexName })
	if at < 0 {
		return in, nil
	}

	index := in.Files[at]
	in.Collected = &Index{}
	if err := yaml.Unmarshal(index.Data, in.Collected); err != nil {
		return in, fmt.Errorf("read %s: %s: %w", in.Name, IndexName, err)
	}

	if version := in.Collected.SchemaVersion; version != knownVersion {
		return in, fmt.Errorf("read %s: %s is of version %d, and this program knows %d",
			in.Name, IndexName, version, knownVersion)
	}

	in.Files = slices.Delete(in.Files, at, at+1)

	if directory := path.Dir(index.Name); directory != "." {
		for i, f := range in.Files {
			in.Files[i].Name = strings.TrimPrefix(f.Name, directory+"/")
		}
	}

	return in, nil
}

// Decode returns a text as UTF-8, and whether it is text. PowerShell writes the output of kubectl
// as UTF-16.
func Decode(data []byte) (text []byte, isText bool) {
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
	isText = bytes.IndexByte(data[:min(looked, len(data))], 0) < 0
	return bytes.TrimPrefix(data, []byte("\ufeff")), isText
}
