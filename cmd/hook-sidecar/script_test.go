package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hook-sidecar/pkg/sidecar"
	"hook-sidecar/test/call"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/script"
)

// update rewrites the files in the scripts that cmp compares with.
var update = flag.Bool("update", false, "rewrite expected files")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hook-sidecar": main,
		sidecar.Shim:   main,
		"call":         call.Main,
	})
}

// TestScript runs the program in a process of its own, with the commands of package
// testscript and of scriptcommands_test.go. Each script begins with what it tests.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		Setup:               copyInputs,
		Cmds:                scriptCommands(),
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(script.Within),
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
	})
}

// served matches a command of a script that is a server, or would be one with other flags.
var served = regexp.MustCompile(`(?m)^.*\b(?:exec|exits \d) hook-sidecar (?:serve|--?[a-z])\b.*$`)

// TestSocketsOfScripts: no script makes a socket in the directory of the pod that it may run in.
func TestSocketsOfScripts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	expect.NoError(t, err)
	count := 0
	for _, file := range files {
		for _, command := range served.FindAllString(string(expect.File(t, file)), -1) {
			count++
			ends := strings.HasSuffix(command, "hook-sidecar --version") ||
				strings.HasSuffix(command, "hook-sidecar -v") ||
				strings.Contains(command, "--help") || strings.HasSuffix(command, " -h")
			if !ends && !strings.Contains(command, "--socket-dir") {
				t.Errorf("%s: %s has no --socket-dir", file, command)
			}
		}
	}

	if count == 0 {
		t.Error("no script has a server")
	}
}

// inputs are files for every script: the domains and VMIs that KubeVirt creates for
// eight GPUs and eight NICs, and for a single GPU in a VM without guest NUMA cells,
// the snapshot of a host with all these devices, and that of one with vGPUs.
var inputs = map[string]string{
	"vm.xml":      "samples/02-8gpu-8nic-gate-off.xml",
	"vmi.json":    "samples/02-8gpu-8nic-gate-off.vmi.json",
	"single.xml":  "samples/01-single-gpu.xml",
	"single.json": "samples/01-single-gpu.vmi.json",
	"host.txtar":  "hosts/x86-2n8g-hgx-h100.txtar",
	"t4.txtar":    "hosts/x86-2n2g-t4-vgpu.txtar",
}

func copyInputs(env *testscript.Env) error {
	for name, from := range inputs {
		data, err := os.ReadFile(filepath.Join("..", "..", "testdata", filepath.FromSlash(from)))
		if err != nil {
			return err
		}

		if err := os.WriteFile(filepath.Join(env.WorkDir, name), data, 0o644); err != nil {
			return err
		}
	}

	return nil
}
