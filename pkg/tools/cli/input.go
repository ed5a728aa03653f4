package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/words/gzipped"
)

// MaxInput limits the bytes of a file, also after gzip: a domain of 8 MiB as base64 in a log.
const MaxInput = 64 << 20

// InputName returns the name of an input file for messages.
func InputName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// ReadInput reads a file, or standard input for "-", also compressed by gzip. A file without data
// is an error.
func (p *Program) ReadInput(file string) ([]byte, error) {
	data, err := p.ReadFile(file, MaxInput)
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = fmt.Errorf("read %s: no data", InputName(file))
	}
	return data, err
}

// ReadFile reads a file that may be empty, with another limit than MaxInput.
func (p *Program) ReadFile(file string, limit int) ([]byte, error) {
	return p.ReadFileOf(file, func([]byte) int { return limit })
}

// ReadFileOf does what ReadFile does, with the limit for a file that begins so.
func (p *Program) ReadFileOf(file string, limitOf func(head []byte) int) ([]byte, error) {
	in := p.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}

		defer f.Close()
		in = f
	} else if err := p.takeInput(); err != nil {
		return nil, err
	}

	data, err := gzipped.Read(in, limitOf)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", InputName(file), host.WithoutPath(err))
	}

	return data, nil
}

// takeInput refuses a second reading of standard input, which would find nothing.
func (p *Program) takeInput() error {
	if p.isRead {
		return Failed("pass a file in place of one -",
			errors.New("cannot read standard input twice"))
	}

	p.isRead = true
	if IsTerminal(p.In) {
		p.Say("reading standard input; Ctrl-D ends it")
	}

	return nil
}

// IsPiped reports whether there is something to read in standard input, which is a pipe or a
// file. A program that another starts often has an empty pipe there.
func (p *Program) IsPiped() (bool, error) {
	file, isFile := p.In.(*os.File)
	if !isFile {
		return false, nil
	}

	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() && info.Mode()&fs.ModeNamedPipe == 0 {
		return false, nil // a terminal, /dev/null, or closed
	}

	defer p.Await("standard input, which is a pipe")()
	first := make([]byte, 1)
	n, err := io.ReadFull(file, first)
	p.In = io.MultiReader(bytes.NewReader(first[:n]), file)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read standard input: %w", err)
	}

	return n > 0, nil
}

// OpenSysfs opens a sysfs directory or a snapshot file, or reads a snapshot from standard input.
func (p *Program) OpenSysfs(name string) (fs.FS, error) {
	if name != "-" {
		return host.OpenSysfs(name)
	}
	sysfs, _, err := p.ReadSnapshot()
	return sysfs, err
}

// ReadSnapshot reads a snapshot from standard input, and returns its comment, too.
func (p *Program) ReadSnapshot() (sysfs fs.FS, comment string, err error) {
	data, err := p.ReadInput("-")
	if err == nil {
		sysfs, err = host.ParseSnapshot(data)
	}

	if err != nil {
		return nil, "", fmt.Errorf("open sysfs: snapshot: %w", err)
	}

	return sysfs, host.SnapshotComment(data), nil
}
