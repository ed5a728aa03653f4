package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// commit is what is released.
type commit struct {
	tag  string // as in v1.2.3
	time time.Time
}

// findCommit is the commit that is checked out: it has to have one tag of a
// version, and nothing may differ from it.
func findCommit(ctx context.Context, root string) (commit, error) {
	changed, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return commit{}, err
	}
	if changed != "" {
		return commit{}, fmt.Errorf("%s differs from its commit, release from a clean checkout:\n%s", root, changed)
	}
	at, err := git(ctx, root, "tag", "--points-at", "HEAD")
	if err != nil {
		return commit{}, err
	}
	isVersion := regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
	var tags []string
	for _, tag := range strings.Fields(at) {
		if isVersion.MatchString(tag) {
			tags = append(tags, tag)
		}
	}
	if len(tags) != 1 {
		return commit{}, fmt.Errorf("%s: the commit has %d tags of a version %v, want one as in v1.2.3", root, len(tags), tags)
	}
	stamp, err := git(ctx, root, "log", "-1", "--format=%ct")
	if err != nil {
		return commit{}, err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("time of %s: %w", tags[0], err)
	}
	return commit{tag: tags[0], time: time.Unix(seconds, 0).UTC()}, nil
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := run(exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...))
	return strings.TrimSpace(out), err
}

// run is what a command prints; where it fails, the error has what it said.
func run(command *exec.Cmd) (string, error) {
	var said strings.Builder
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(said.String()))
	}
	return string(out), nil
}
