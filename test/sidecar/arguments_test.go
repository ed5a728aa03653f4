//go:build linux

package sidecar

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// TestWrongArguments: a sidecar that ends because of its arguments fails the VM without an
// event, since virt-launcher waits for its socket. It says in each call what is wrong: in its
// log, and with --strict in a refusal, which becomes an event of the VMI.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	needRoot(t)
	domain, host := onDevices(2)
	dir := root(t, host)
	for _, tt := range []struct {
		arguments string
		says      string
		refused   bool
	}{
		{arguments: "--laoyut mirror", says: "unknown flag: --laoyut (did you mean --layout?"},
		{arguments: "--layout miror",
			says: `invalid --layout "miror": must be one of auto, keep, numa, root, switch, ` +
				`mirror; did you mean mirror?`},
		{arguments: "--version v1alpha3 --layout", says: "flag --layout needs a value"},
		{arguments: "--version v1alpha4",
			says: `invalid --version "v1alpha4": must be one of v1alpha3, v1alpha2, v1alpha1`},
		{arguments: "--lock layuot", says: `invalid policy key "layuot"`},
		{arguments: "--version v1alpha3 mirror", says: `unexpected argument "mirror"`},
		{arguments: "---layout=mirror", says: "bad flag syntax: ---layout=mirror"},
		{arguments: "--strict=false -x", says: "unknown shorthand flag: 'x'"},
		// a dry run never fails a VM
		{arguments: "--strict --dry-run -x", says: "unknown shorthand flag: 'x'"},
		{arguments: "--laoyut mirror --strict", says: "unknown flag: --laoyut", refused: true},
		{arguments: "--strict true",
			says:    `unexpected argument "true" (did you mean --strict=true? It must be true or false)`,
			refused: true},
		{arguments: "--strict=yes", says: `invalid --strict "yes": must be true or false`,
			refused: true},
		{arguments: "--strict --layout miror", says: `invalid --layout "miror"`, refused: true},
		// What is not about the first wrong one holds: the socket is there.
		{arguments: "--colour red --socket-dir /nowhere --socket-dir /var/run/kubevirt-hooks",
			says: "unknown flag: --colour"},
	} {
		t.Run(tt.arguments, func(t *testing.T) {
			s := start(t, dir, nil, strings.Fields(tt.arguments)...)
			checkCarried(t, s.socket, domain, tt.says, tt.refused)
			expect.NoError(t, hookstest.Shutdown(t.Context(), s.socket))
			if err := s.process.Wait(); err != nil {
				t.Errorf("the program exited with %v", err)
			}

			if _, log, _ := strings.Cut(strings.ReplaceAll(s.log.String(), `\"`, `"`),
				"domain left unchanged"); !strings.Contains(log, tt.says) {
				t.Errorf("the call's line of the log lacks %q:\n%s", tt.says, s.log)
			}
		})
	}
}

// TestWrongFirstArgument: without a flag as its first argument a sidecar is no command line,
// where the same words end with a hint (cmd/hook-sidecar/testdata/script/did-you-mean.txtar).
func TestWrongFirstArgument(t *testing.T) {
	t.Parallel()
	needRoot(t)
	domain, host := onDevices(2)
	dir := root(t, host)
	for arguments, says := range map[string]string{
		"mirror":    `unexpected argument "mirror"`,
		"--version": "flag --version needs a value",
	} {
		var log bytes.Buffer

		// The first process of its namespace, as in a container.
		sidecar := exec.Command("unshare", "--pid", "--fork", "--kill-child", "chroot", dir,
			"/hook-sidecar", arguments)
		sidecar.Stderr, sidecar.Env = &log, []string{
			"CONTAINER_NAME=first", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		}

		expect.NoError(t, sidecar.Start())
		socket := filepath.Join(dir, "var", "run", "kubevirt-hooks", hooks.SocketName("first"))
		checkCarried(t, socket, domain, says, false)
		expect.NoError(t, hookstest.Shutdown(t.Context(), socket))
		if err := sidecar.Wait(); err != nil ||
			!strings.Contains(strings.ReplaceAll(log.String(), `\"`, `"`), says) {
			t.Errorf("%s: the program exited with %v\n%s", arguments, err, &log)
		}
	}
}

// checkCarried checks that a sidecar answers with the domain as it is, or refuses the call.
func checkCarried(t *testing.T, socket string, domain []byte, says string, refused bool) {
	t.Helper()
	got, err := connect(t, socket).OnDefineDomain(t.Context(), hooks.V1alpha3, domain, vmi(0))
	switch {
	case refused &&
		(status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says)):
		t.Errorf("answered with %v, want a refusal with %q", err, says)
	case !refused && (err != nil || !bytes.Equal(got, domain)):
		t.Errorf("changed %t, %v", !bytes.Equal(got, domain), err)
	}
}
