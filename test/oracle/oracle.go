// Package oracle asks a real libvirt, for tests only: it defines a domain with
// schema validation, reads it back and compares. No daemon is needed: virsh runs
// libvirt's QEMU driver in its own process (qemu:///embed,
// https://libvirt.org/drvqemu.html, "Embedded driver") with a directory of its own.
package oracle

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"hook-sidecar/test/tree"
)

// RequireVariable names the environment variable that turns a missing libvirt
// from a skipped test into a failed one; CI sets it to 1.
const RequireVariable = "REQUIRE_LIBVIRT"

// RootVariable names the environment variable with the directory of another
// Debian, such as the one that test/e2e/get-image builds: its libvirt is asked
// then, in a chroot, which needs root.
const RootVariable = "LIBVIRT_ROOT"

// nobody is the user of virsh in a test that runs as root. Two things depend on
// it: libvirt without root does not look for its own system user, which only the
// daemon's package creates, and QEMU cannot open a /dev/kvm that is root's.
// libvirt asks QEMU for its capabilities again, which takes 1.5 s, whenever KVM has
// appeared or disappeared.
const nobody = 65534

// conf is the driver's configuration, https://libvirt.org/drvqemu.html: no
// confinement, no ownership changes, no cgroups, no helper daemon for logs.
const conf = `security_driver = "none"
dynamic_ownership = 0
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
`

// Libvirt is an embedded libvirt with a directory of its own. It is safe for
// concurrent use; calls wait for each other.
type Libvirt struct {
	dir     string
	version int
	mu      sync.Mutex
	session *session          // nil before the first call and after a failure
	known   map[string]answer // readbacks, by domain
}

type answer struct {
	domain []byte
	err    error
}

// Available reports whether New returns an oracle, or must return one. It is for
// tests that use a model of libvirt otherwise.
func Available() bool {
	if os.Getenv(RequireVariable) == "1" {
		return true
	}

	for _, program := range programs() {
		if _, err := lookUp(program); err != nil {
			return false
		}
	}

	return true
}

// programs returns what New looks for. Domains of aarch64 need qemu-system-aarch64 too, and are
// refused without it.
func programs() []string { return []string{"virsh", "qemu-system-x86_64"} }

// lookUp finds a program, in the directory of RootVariable where that is set.
func lookUp(program string) (string, error) {
	if root := os.Getenv(RootVariable); root != "" {
		return exec.LookPath(filepath.Join(root, "usr", "bin", program))
	}
	return exec.LookPath(program)
}

// New makes an oracle for one test and its subtests. Without virsh or QEMU the
// test is skipped, or fails where REQUIRE_LIBVIRT is 1.
func New(tb testing.TB) *Libvirt {
	tb.Helper()
	for _, program := range programs() {
		if _, err := lookUp(program); err != nil {
			missing(tb, err)
		}
	}

	l, err := newLibvirt()
	if err != nil {
		tb.Fatalf("libvirt oracle: %v", err)
	}

	tb.Cleanup(func() {
		if err := l.close(); err != nil {
			tb.Errorf("libvirt oracle: %v", err)
		}
	})

	// Connecting shows whether this libvirt has the QEMU driver, which is a
	// package of its own (Debian: libvirt-daemon-driver-qemu).
	out, err := l.virsh("version")
	if err != nil {
		missing(tb, err)
	}

	if l.version, err = readVersion(string(out)); err != nil {
		tb.Fatalf("libvirt oracle: %v", err)
	}

	return l
}

// used is the line of `virsh version` with the library's version.
var used = regexp.MustCompile(`Using library: libvirt (\d+)\.(\d+)\.`)

func readVersion(text string) (int, error) {
	match := used.FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("read libvirt's version in %q: no line matches %s", text, used)
	}
	return version(tree.Number(match[1]), tree.Number(match[2])), nil
}

func missing(tb testing.TB, err error) {
	tb.Helper()
	if os.Getenv(RequireVariable) == "1" {
		tb.Fatalf("libvirt oracle: %v (%s=1)", err, RequireVariable)
	}
	tb.Skipf("libvirt oracle: %v; install libvirt-clients, libvirt-daemon-driver-qemu and "+
		"qemu-system-x86", err)
}

func newLibvirt() (*Libvirt, error) {
	// Not tb.TempDir: its parent is closed to other users. The name is short
	// because libvirt makes sockets in it (108 bytes).
	parent := ""
	if root := os.Getenv(RootVariable); root != "" {
		parent = filepath.Join(root, "tmp")
	}

	dir, err := os.MkdirTemp(parent, "orc")
	if err != nil {
		return nil, err
	}

	l := &Libvirt{dir: dir, known: map[string]answer{}}
	if err := l.fill(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}

	return l, nil
}

func (l *Libvirt) fill() error {
	etc := filepath.Join(l.dir, "etc")
	if err := os.Mkdir(etc, 0o755); err != nil {
		return err
	}

	if err := os.WriteFile(filepath.Join(etc, "qemu.conf"), []byte(conf), 0o644); err != nil {
		return err
	}

	if err := l.loadCapabilities(); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}

	return filepath.WalkDir(l.dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, nobody, nobody))
	})
}

func (l *Libvirt) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.session.end()
	}

	return errors.Join(l.saveCapabilities(), os.RemoveAll(l.dir))
}

// Define passes a domain to libvirt as it is, with schema validation, and returns
// what `dumpxml --inactive` prints. Nothing stays defined. The error has libvirt's
// own words.
func (l *Libvirt) Define(domain []byte) (readback []byte, err error) {
	return l.define(domain, "define --validate ")
}

func (l *Libvirt) define(domain []byte, command string) (readback []byte, err error) {
	name, err := nameOf(domain)
	if err != nil {
		return nil, fmt.Errorf("define domain: %w", err)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	file := filepath.Join(l.dir, "domain.xml")
	if err := os.WriteFile(file, domain, 0o644); err != nil {
		return nil, err
	}

	quoted := quote(name)
	return l.virsh(command + quote(l.inside(file)) + "; dumpxml --inactive " + quoted +
		"; undefine --nvram " + quoted)
}

// nameOf reads a domain up to its name, which is among its first elements.
func nameOf(domain []byte) (name string, err error) {
	decoder := xml.NewDecoder(bytes.NewReader(domain))
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return "", fmt.Errorf("read <name>: %w", err)
		}

		switch element := token.(type) {
		case xml.StartElement:
			depth++
			if depth == 2 && element.Name.Local == "name" {
				err = decoder.DecodeElement(&name, &element)
				return name, err
			}
		case xml.EndElement:
			depth--
		}
	}
}

// Readback returns what this libvirt makes of a domain in a boot, without what it is known to
// refuse. As when virt-launcher defines a domain, there is no schema validation. It defines each
// domain once, and returns a copy, which is the caller's.
func (l *Libvirt) Readback(domain []byte) ([]byte, error) {
	l.mu.Lock()
	a, known := l.known[string(domain)]
	l.mu.Unlock()

	if !known {
		prepared, _ := prepare(domain, rulesOf(l.version))
		a.domain, a.err = l.define(prepared, "define ")
		l.mu.Lock()
		l.known[string(domain)] = a
		l.mu.Unlock()
	}

	return bytes.Clone(a.domain), a.err
}

// IsByIndex reports whether libvirt gives addresses to the root ports that it makes of missing
// indexes in the order of all indexes. libvirt 9.0 does so after all others, 11.3 and 12.8 by
// index.
func (l *Libvirt) IsByIndex() bool { return l.version >= version(11, 3) }

// AddsPortForBridge reports whether libvirt adds a root port for a bridge to conventional PCI
// that has no address and finds no port. 12.8 does, 11.3 refuses the domain.
func (l *Libvirt) AddsPortForBridge() bool { return l.version >= version(12, 8) }

// inside returns the path that libvirt sees.
func (l *Libvirt) inside(path string) string {
	return strings.TrimPrefix(path, os.Getenv(RootVariable))
}

// quote makes one word of virsh's command language, which quotes as a shell does.
func quote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
