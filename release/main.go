// Release makes the files of a release from a clean checkout of its tag: the
// static programs with a bill of materials each, the manifests with that
// release's image in them, the notes and the checksums. One tag gives the same
// bytes wherever and whenever it runs, with one release of Go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// options say what is released, and where to.
type options struct {
	root       string   // the checkout
	out        string   // the folder that is made
	repository string   // of the image, without a tag
	platforms  []string // as in linux/amd64
}

func main() {
	var o options
	var platforms string
	flag.StringVar(&o.root, "root", "..", "the checkout")
	flag.StringVar(&o.out, "out", "../dist", "the folder to make")
	flag.StringVar(&o.repository, "repository", placeholder, "the image's repository, without a tag")
	flag.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "what to build for")
	flag.Parse()
	o.platforms = strings.Split(platforms, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tag, err := release(ctx, o)
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: error: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("%s is in %s\n", tag, o.out)
}

// release makes the folder, whole or not at all, and returns the tag that was
// found. A folder inside of the checkout has to be one that git ignores, or the
// programs would say that they are of a changed commit.
func release(ctx context.Context, o options) (tag string, err error) {
	at, err := findCommit(ctx, o.root)
	if err != nil {
		return "", err
	}
	log, err := os.ReadFile(filepath.Join(o.root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	notes, err := section(string(log), at.tag)
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(o.out, 0o755); err != nil {
		return "", err // a folder that is there is one of these errors
	}
	if err := fill(ctx, o, at, notes); err != nil {
		return "", errors.Join(err, os.RemoveAll(o.out))
	}
	return at.tag, nil
}

// fill writes every file of a release.
func fill(ctx context.Context, o options, at commit, notes string) error {
	for _, platform := range o.platforms {
		program, err := build(ctx, o.root, o.out, platform, at.tag)
		if err != nil {
			return err
		}
		if err := writeBOM(program, at); err != nil {
			return err
		}
	}
	if err := writeManifests(filepath.Join(o.root, "manifests"), o.out, o.repository, at.tag); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "release-notes.md"), []byte(notes), 0o644); err != nil {
		return err
	}
	return writeSums(o.out)
}
