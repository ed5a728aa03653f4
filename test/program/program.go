// Package program builds the program under test.
package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// Build builds ./cmd/hook-sidecar of the module in a directory into a file, with the
// flags of the Dockerfile there, and with further environment variables: "GOARCH=arm64".
func Build(file, root string, environ ...string) error {
	return BuildPackage(file, root, "./cmd/hook-sidecar", environ...)
}

// BuildPackage builds another program of the module in the same way.
func BuildPackage(file, root, name string, environ ...string) error {
	flags, err := flags(root)
	if err != nil {
		return err
	}

	if err := list(root); err != nil {
		return err
	}

	command := exec.Command("sh", "-c",
		fmt.Sprintf("go build -buildvcs=false %s -o '%s' %s", flags, file, name))
	command.Dir, command.Env = root, slices.Concat(os.Environ(), []string{"CGO_ENABLED=0"}, environ)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", name, err, out)
	}

	return nil
}

func flags(root string) (string, error) {
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		return "", err
	}

	build := regexp.MustCompile(`go build (.*) -o /out/hook-sidecar`).FindSubmatch(dockerfile)
	if build == nil {
		return "", errors.New("the Dockerfile has no line that builds hook-sidecar")
	}

	return string(build[1]), nil
}

// list lists the program's directories, so that `go test` knows that its cached result
// depends on their files (go help test): it does not see what another process reads.
func list(root string) error {
	for _, dir := range []string{"cmd", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, dir),
			func(_ string, _ fs.DirEntry, err error) error {
				return err
			})
		if err != nil {
			return err
		}
	}

	return nil
}
