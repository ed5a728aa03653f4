package main

import (
	"testing"
	"testing/fstest"

	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/test/expect"
)

func TestReadLimits(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  *doctor.Limits
	}{
		"as KubeVirt sets them for a sidecar": {map[string]string{
			"memory.max": "63995904\n", "cpu.max": "20000 100000\n",
		}, &doctor.Limits{MemoryBytes: 63995904, MilliCPU: 200}},
		"none": {map[string]string{
			"memory.max": "max\n", "cpu.max": "max 100000\n",
		}, &doctor.Limits{}},
		"more than one CPU": {map[string]string{
			"memory.max": "max\n", "cpu.max": "250000 100000\n",
		}, &doctor.Limits{MilliCPU: 2500}},
		"cgroup v1": {map[string]string{}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for file, content := range test.files {
				fsys[file] = &fstest.MapFile{Data: []byte(content), Mode: 0o444}
			}

			got, err := readLimits(fsys)
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
			"memory.max": &fstest.MapFile{Data: []byte(files[0])},
			"cpu.max":    &fstest.MapFile{Data: []byte(files[1])},
		}
		if got, err := readLimits(fsys); err == nil {
			t.Errorf("%s: %v, want an error", name, got)
		}
	}
}

func TestParsePhysBits(t *testing.T) {
	for text, want := range map[string]int{
		"processor\t: 0\nmodel name\t: x\naddress sizes\t: 46 bits physical, 57 bits virtual\n" +
			"flags\t: x\n": 46,
		"processor\t: 0\nBogoMIPS\t: 100.00\n": 0, // aarch64
		"address sizes\t: many\n":              0,
	} {
		if got := parsePhysBits(text); got != want {
			t.Errorf("%q: %d bits, want %d", text, got, want)
		}
	}
}
