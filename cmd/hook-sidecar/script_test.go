package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"hook-sidecar/pkg/sidecar"
)

// update rewrites the files in the scripts that cmp compares with.
var update = flag.Bool("update", false, "rewrite expected files")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hook-sidecar": main,
		sidecar.Shim:   main,
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
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
	})
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
