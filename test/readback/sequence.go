package readback

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"hook-sidecar/test/tree"
)

// Hook is an OnDefineDomain hook, Lib a libvirt: define and read back.
type (
	Hook func(domain []byte) ([]byte, error)
	Lib  func(domain []byte) ([]byte, error)
)

// Sequence plays one boot: every call that KubeVirt makes to the hook, and every
// answer. first is the domain of call 1, with or without placeholder interfaces.
// Every answer is defined in lib, as virt-launcher does. An error ends the test.
func (v Version) Sequence(
	tb testing.TB, first, vmiJSON []byte, hook Hook, lib Lib,
) (calls, answers [][]byte) {
	tb.Helper()
	boot := &boot{version: v, hook: hook, lib: lib}
	if err := boot.run(first, vmiJSON); err != nil {
		tb.Fatalf("boot sequence, after %d calls: %v", len(boot.calls), err)
	}

	return boot.calls, boot.answers
}

type boot struct {
	version        Version
	hook           Hook
	lib            Lib
	calls, answers [][]byte
}

// define returns one SetDomainSpecStrWithHooks: it returns the hook's answer as KubeVirt holds it
// and what libvirt reads back.
func (b *boot) define(domain []byte) (spec, readback []byte, err error) {
	b.calls = append(b.calls, domain)
	answer, err := b.hook(slices.Clone(domain))
	if err != nil {
		return nil, nil, fmt.Errorf("hook: %w", err)
	}

	b.answers = append(b.answers, answer)
	if spec, err = b.version.Remarshal(answer); err != nil {
		return nil, nil, fmt.Errorf("KubeVirt reads the hook's answer: %w", err)
	}

	if readback, err = b.lib(answer); err != nil {
		return nil, nil, fmt.Errorf("libvirt: %w", err)
	}

	return spec, readback, nil
}

func (b *boot) run(first, vmiJSON []byte) error {
	if err := checkIndexes(first); err != nil {
		return err
	}

	original, _, err := WithoutPlaceholders(first)
	if err != nil {
		return err
	}

	v, err := parseVMI(vmiJSON)
	if err != nil {
		return err
	}

	if !v.hotplug() {
		_, _, err := b.define(original)
		return err
	}

	placeholders, err := PlaceholderCount(vmiJSON)
	if err != nil {
		return err
	}

	extra, err := ExtraPorts(original, vmiJSON, placeholders)
	if err != nil {
		return err
	}

	spec, err := b.untilAddressed(original, placeholders)
	if err != nil {
		return err
	}
	if extra == 0 && b.version == V190 {
		return nil
	}

	if spec, err = AppendRootPorts(spec, extra); err != nil {
		return err
	}

	_, _, err = b.define(spec)
	return err
}

// untilAddressed makes the calls before the extra root ports.
func (b *boot) untilAddressed(original []byte, placeholders int) ([]byte, error) {
	if placeholders > 0 {
		call, err := Placeholders(original, placeholders)
		if err != nil {
			return nil, err
		}

		// Of this answer KubeVirt keeps nothing but the devices, as libvirt reads
		// them back.
		_, readback, err := b.define(call)
		if err != nil {
			return nil, err
		}

		if original, err = b.version.TakeDevices(readback, original, true); err != nil {
			return nil, err
		}
	}

	spec, readback, err := b.define(original)
	if err != nil || placeholders > 0 || b.version == V190 {
		return spec, err
	}

	return b.version.TakeDevices(readback, spec, false)
}

// checkIndexes refuses a domain that KubeVirt did not make: its controllers have an
// index, and one without would get an empty one (virtwrap/api/schema.go, Controller).
func checkIndexes(domain []byte) error {
	root, err := tree.Parse(domain)
	if err != nil {
		return err
	}

	for _, c := range root.Find("devices").All("controller") {
		if _, given := c.Lookup("index"); !given {
			return errors.New("not KubeVirt's domain: a controller has no index")
		}
	}

	return nil
}
