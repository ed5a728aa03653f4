package env_test

import (
	"testing"
	"testing/fstest"

	"hook-sidecar/pkg/env"
	"hook-sidecar/test/expect"
)

func TestReadLimits(t *testing.T) {
	const namespaced = "0::/\n" // what a container with a cgroup namespace sees
	tests := map[string]struct {
		membership string
		files      map[string]string
		want       *env.Limits
	}{
		"as KubeVirt sets them for a sidecar": {namespaced, map[string]string{
			"memory.max": "63995904\n", "cpu.max": "20000 100000\n",
		}, &env.Limits{MemoryBytes: 63995904, MilliCPU: 200}},
		"none": {namespaced, map[string]string{"memory.max": "max\n", "cpu.max": "max 100000\n"}, &env.Limits{}},
		"more than one CPU": {namespaced, map[string]string{
			"memory.max": "max\n", "cpu.max": "250000 100000\n",
		}, &env.Limits{MilliCPU: 2500}},
		"cgroup v1": {"4:memory:/a\n0::/\n", map[string]string{}, nil},
		"the lowest of all cgroups above": {"0::/pod/container\n", map[string]string{
			"pod/container/memory.max": "max\n", "pod/container/cpu.max": "50000 100000\n",
			"pod/memory.max": "1048576\n", "pod/cpu.max": "100000 100000\n",
		}, &env.Limits{MemoryBytes: 1048576, MilliCPU: 500}},
		"a cgroup outside the container": {"0::/../other\n", map[string]string{
			"memory.max": "4096\n", "cpu.max": "max 100000\n",
		}, &env.Limits{MemoryBytes: 4096}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for file, content := range test.files {
				fsys[file] = &fstest.MapFile{Data: []byte(content), Mode: 0o444}
			}
			got, err := env.ReadLimits(fsys, test.membership)
			expect.NoError(t, err)
			expect.Same(t, test.want, got, "(-want +got)")
		})
	}
}

func TestReadLimitsErrors(t *testing.T) {
	for name, files := range map[string][2]string{
		"memory.max": {"lots", "max 100000"},
		"cpu.max":    {"max", "100000"},
		"no period":  {"max", "100000 0"},
	} {
		fsys := fstest.MapFS{
			"memory.max": &fstest.MapFile{Data: []byte(files[0])}, "cpu.max": &fstest.MapFile{Data: []byte(files[1])},
		}
		if got, err := env.ReadLimits(fsys, "0::/\n"); err == nil {
			t.Errorf("%s: %v, want an error", name, got)
		}
	}
}

func TestParsePhysBits(t *testing.T) {
	for text, want := range map[string]int{
		"processor\t: 0\nmodel name\t: x\naddress sizes\t: 46 bits physical, 57 bits virtual\nflags\t: x\n": 46,
		"processor\t: 0\nBogoMIPS\t: 100.00\n": 0, // aarch64
		"address sizes\t: many\n":              0,
	} {
		if got := env.ParsePhysBits(text); got != want {
			t.Errorf("%q: %d bits, want %d", text, got, want)
		}
	}
}
