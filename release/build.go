package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build builds the program for a platform as the Dockerfile does, and makes
// sure that it knows its version.
func build(ctx context.Context, root, dir, platform, tag string) (program string, err error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return "", fmt.Errorf("platform %q, want one as in linux/amd64", platform)
	}
	program, err = filepath.Abs(filepath.Join(dir, "hook-sidecar-"+system+"-"+arch))
	if err != nil {
		return "", err
	}
	// Written out, as Go's settings or a variable could say otherwise (`go help buildconstraint`,
	// `go help environment`): without buildvcs the program would not know its tag.
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", program, "./cmd/hook-sidecar")
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off")
	if _, err := run(command); err != nil {
		return "", err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	if info.Main.Version != tag {
		return "", fmt.Errorf("%s says that it is %s, want %s", filepath.Base(program), info.Main.Version, tag)
	}
	return program, nil
}
