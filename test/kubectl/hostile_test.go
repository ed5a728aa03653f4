package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// endless prints until nobody listens.
func endless(_ context.Context, _ []string, _ io.Reader, out, _ io.Writer) error {
	for {
		if _, err := out.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
			return err
		}
	}
}

// silent does not end before the client has left.
func silent(ctx context.Context, _ []string, _ io.Reader, _, _ io.Writer) error {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
	}
	return nil
}

// escapes fails with text for a terminal.
func escapes(_ context.Context, _ []string, _ io.Reader, _, errs io.Writer) error {
	fmt.Fprint(errs, "\x1b[2J\x1b]0;owned\a\nerror: forged")
	return exitStatus(1)
}

// printing prints a domain to virsh's caller, and else a host.
func printing(domain []byte, host string) process {
	return func(_ context.Context, words []string, _ io.Reader, out, _ io.Writer) error {
		if words[0] == "virsh" {
			_, err := out.Write(domain)
			return err
		}
		_, err := io.WriteString(out, host)
		return err
	}
}

// runningDomain is a domain with devices.
func (c *cluster) runningDomain(t *testing.T) []byte {
	t.Helper()
	domain, err := c.launcher.output("virsh", "-q", "-c", "qemu:///system", "dumpxml", "default_dgx")
	if err != nil {
		t.Fatal(err)
	}
	return domain
}

// A pod may be its owner's: what it prints is bounded, and checked like a file.
func (c *cluster) testHostile(t *testing.T) {
	domain := c.runningDomain(t)
	for name, test := range map[string]struct {
		compute process
		want    string
	}{
		"endless": {endless, "it prints more than 8388608 bytes"},
		"silent":  {silent, "it has not ended in time"},
		"escapes": {escapes, `exit status 1: ?[2J?]0;owned? error: forged`},
		"no-xml":  {printing([]byte("<domain><name>x"), ""), "parse domain"},
		"nothing": {printing(domain, ""), "not a snapshot"},
		"loop":    {printing(domain, "-- bus/pci/devices/0000:9d:00.0 -> 0000:9d:00.0 --\n"), "is part of a loop"},
		"outside": {printing(domain, "-- bus/pci/devices/0000:9d:00.0 -> ../../../../etc --\n"), "leads out of the snapshot"},
	} {
		c.run(t, name, test.compute, nil)
		timeout := "1m"
		if name == "silent" {
			timeout = "3s"
		}
		r := c.as(t, "viewer", "explain", name, "--timeout", timeout)
		r.fails(t, test.want)
		if strings.ContainsAny(r.err, "\x1b\a\u009b") {
			t.Errorf("%s: the terminal obeys %q", name, r.err)
		}
	}
}

// The aliases of a domain may be anybody's, and so may what sysfs says.
func (c *cluster) testEscapes(t *testing.T) {
	domain := bytes.Replace(c.runningDomain(t), []byte("ua-gpu-gpu1"), []byte("ua-\u009b31mgpu"), 1)
	c.run(t, "forged", printing(domain, "-- bus/pci/devices/0000:9d:00.0 -> ../../../devices/pci0000:97/0000:9d:00.0 --\n"+
		"-- devices/pci0000:97/0000:9d:00.0/class --\n\x1b[31m\n"), nil)
	for _, format := range []string{"text", "json", "svg"} {
		r := c.as(t, "viewer", "explain", "forged", "--format", format)
		at := strings.IndexAny(r.out+r.err, "\x1b\u009b")
		if r.code != 0 || at >= 0 || r.err != "" {
			t.Errorf("%s: exit status %d, %s, the terminal obeys %.20q", format, r.code, r.err, r.out[max(at, 0):])
		}
	}
}

// What admission refuses is no missing right.
func (c *cluster) testPolicy(t *testing.T) {
	c.create(t, resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies"), fromYAML(t, []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-exec}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]}]
  validations: [{expression: "false", message: nobody may exec, reason: Forbidden}]
`)))
	c.create(t, resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings"), fromYAML(t, []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-exec}
spec: {policyName: no-exec, validationActions: [Deny]}
`)))
	until(t, "the policy", func() error { // it is active some time after it is stored
		if c.as(t, "viewer", "explain", "dgx").code == 0 {
			return errors.New("exec is allowed")
		}
		return nil
	})
	c.as(t, "viewer", "explain", "dgx").fails(t, "nobody may exec", "the cluster's policy refuses it, whatever the user's rights")
}
