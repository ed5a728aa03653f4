package oracle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// virshTimeout bounds one line of commands. A define takes about 5 ms, 15 ms with
// schema validation, the first one 1.6 s, since libvirt asks QEMU for its
// capabilities.
const virshTimeout = time.Minute

// session is a virsh that reads its commands from a pipe: starting a virsh, which
// opens the embedded driver, costs ten times as much as a define.
type session struct {
	cmd            *exec.Cmd
	in             io.WriteCloser
	stdout, stderr *bufio.Reader
}

// inRoot runs a command as nobody in the root directory $0, with its own /proc and
// this machine's /dev/null, which a root that was only unpacked lacks.
const inRoot = `mount -t proc proc "$0/proc"
mount --bind /dev/null "$0/dev/null"
exec chroot --userspec=65534:65534 "$0" "$@"`

func (l *Libvirt) start() (*session, error) {
	dir := l.inside(l.dir)

	// A virsh that writes to a pipe would keep what it prints until it exits.
	words := []string{"stdbuf", "-oL", "virsh", "-q", "-c", "qemu:///embed?root=" + dir}
	if root := os.Getenv(RootVariable); root != "" {
		words = append([]string{"unshare", "--mount", "sh", "-ec", inRoot, root}, words...)
	}

	s := &session{cmd: exec.Command(words[0], words[1:]...)}
	s.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir,
	}

	s.cmd.Dir = l.dir
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 && words[0] == "stdbuf" {
		s.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}

	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}

	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}

	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}

	s.stdout, s.stderr = bufio.NewReader(stdout), bufio.NewReader(stderr)
	return s, s.cmd.Start()
}

// end closes virsh's input, upon which it exits, and waits for it.
func (s *session) end() {
	_ = s.in.Close()
	_ = s.cmd.Wait() // its status is that of its last command
}

// The marks around the output of one line of commands. virsh prints the line that
// it reads, too, and there each mark is in two parts.
const (
	begins, typedBegins = "output begins", "'output ''begins'"
	ends, typedEnds     = "output ends", "'output ''ends'"
)

// run writes one line of commands and returns what they print.
func (s *session) run(commands string) (stdout, stderr string, err error) {
	stalled := time.AfterFunc(virshTimeout, func() { _ = s.cmd.Process.Kill() })
	defer stalled.Stop()
	line := fmt.Sprintf("echo %s; echo --err %s; %s; echo %s; echo --err %s\n", typedBegins,
		typedBegins, commands, typedEnds, typedEnds)
	if _, err := io.WriteString(s.in, line); err != nil {
		return "", "", err
	}

	type output struct {
		text string
		err  error
	}

	printed := make(chan output, 1)
	go func() {
		text, err := between(s.stdout)
		printed <- output{text, err}
	}()

	stderr, err = between(s.stderr)
	out := <-printed
	return out.text, stderr, errors.Join(err, out.err)
}

// between returns what is between the two marks.
func between(r *bufio.Reader) (string, error) {
	if _, err := upTo(r, begins); err != nil {
		return "", err
	}
	return upTo(r, ends)
}

// upTo reads up to a mark, which need not begin or end a line, and returns what is
// before it.
func upTo(r *bufio.Reader, mark string) (string, error) {
	var text []byte
	for {
		b, err := r.ReadByte()
		if err != nil {
			return string(text), fmt.Errorf("virsh has exited: %w", err)
		}

		text = append(text, b)
		if before, found := bytes.CutSuffix(text, []byte(mark)); found {
			return string(before), nil
		}
	}
}

// logLine is a line of libvirt's own log, which an embedded driver writes to
// the process's standard error.
var logLine = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d [\d:.+]+: \d+: .*\n?`)

// virsh runs commands of virsh's language, separated by semicolons.
func (l *Libvirt) virsh(commands string) ([]byte, error) {
	if l.session == nil {
		started, err := l.start()
		if err != nil {
			return nil, err
		}
		l.session = started
	}

	stdout, stderr, err := l.session.run(commands)
	if err != nil {
		l.session.end()
		l.session = nil
	}

	// virsh writes "error: " before the mark, too.
	message := strings.TrimSpace(logLine.ReplaceAllString(strings.TrimSuffix(stderr, "error: "),
		""))
	if err == nil && strings.Contains(message, "error:") {
		err = errors.New("failed")
	}

	if err != nil {
		return nil, fmt.Errorf("virsh %s: %w: %s", strings.Fields(commands)[0], err, message)
	}

	return []byte(strings.TrimSpace(stdout)), nil
}

// libvirt asks each QEMU for its capabilities (1.6 s) and keeps the answer with the
// times of what it depends on, in the driver's directory. These are kept from one
// oracle to the next; libvirt asks again where they are out of date.

// keptCapabilities returns a directory of the user's cache, one per Debian (RootVariable).
func keptCapabilities() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}

	root := strings.ReplaceAll(os.Getenv(RootVariable), "/", "_")
	return filepath.Join(cache, "hook-sidecar", "capabilities"+root), nil
}

func (l *Libvirt) capabilities() string {
	return filepath.Join(l.dir, "cache", "qemu", "capabilities")
}

func (l *Libvirt) loadCapabilities() error {
	kept, err := keptCapabilities()
	if err != nil {
		return nil // no home, no cache
	}

	if _, err := os.Stat(kept); err != nil {
		return nil
	}

	return os.CopyFS(l.capabilities(), os.DirFS(kept))
}

// saveCapabilities keeps what libvirt has asked for, where that is new.
func (l *Libvirt) saveCapabilities() error {
	kept, err := keptCapabilities()
	if err != nil {
		return nil
	}

	files, err := filepath.Glob(filepath.Join(l.capabilities(), "*.xml"))
	if err != nil || len(files) == 0 {
		return err
	}

	if err := os.MkdirAll(kept, 0o755); err != nil {
		return nil // a home that is read-only
	}

	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}

		name := filepath.Join(kept, filepath.Base(file))
		if old, err := os.ReadFile(name); err == nil && string(old) == string(data) {
			continue
		}

		// Several tests may do so at once.
		if err := os.WriteFile(name+fmt.Sprint(os.Getpid(), l.dir[len(l.dir)-6:]), data,
			0o644); err != nil {
			return err
		}

		if err := os.Rename(name+fmt.Sprint(os.Getpid(), l.dir[len(l.dir)-6:]), name); err != nil {
			return err
		}
	}

	return nil
}
