package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	utilexec "k8s.io/utils/exec"
)

// hostFile is the host of the containers.
const hostFile = "../../testdata/hosts/x86-2n8g-hgx-h100.txtar"

// container is a root file system with processes of its own.
type container struct {
	root     string
	pid      string // of its first process
	children string // the file that names it
}

// newContainer begins to start a container as virt-launcher's compute is: its /sys is
// another host's and its libvirt's socket is where KubeVirt's is.
func newContainer(t *testing.T, programs string) *container {
	t.Helper()
	dir := t.TempDir()
	c := &container{root: filepath.Join(dir, "root")}
	files := filepath.Join(dir, "files")
	for _, d := range []string{c.root, files} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	command(t, "cp", "testdata/emulator", filepath.Join(programs, "hook-sidecar"), files)
	command(t, "gcc", "-shared", "-fPIC", "-o", filepath.Join(files, "memlock.so"),
		"testdata/memlock.c", "-ldl")
	var log bytes.Buffer
	first := exec.Command("unshare", "--mount", "--propagation", "private", "--pid", "--fork",
		"--kill-child",
		"sh", "testdata/container.sh", c.root, files, sysfsDirectory(t, dir, hostFile))

	first.Stdout, first.Stderr = &log, &log
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		first.Process.Kill()
		first.Wait()
		if t.Failed() {
			text := log.String()
			t.Logf("libvirtd:\n%s", text[max(0, len(text)-500):])
		}
	})

	c.children = fmt.Sprintf("/proc/%d/task/%[1]d/children", first.Process.Pid)
	return c
}

// wait waits until the container's libvirt answers.
func (c *container) wait(t *testing.T) {
	t.Helper()
	until(t, "the container's libvirt", func() error {
		data, err := os.ReadFile(c.children)
		if c.pid = strings.TrimSpace(string(data)); err != nil || c.pid == "" {
			return errors.Join(err, errors.New("no process"))
		}

		_, err = c.output("virsh", "-c", "qemu:///system", "uri")
		return err
	})
}

// entry is a line of a snapshot that begins a file, or a link with its target
// (docs/troubleshooting.md).
var entry = regexp.MustCompile(`^-- (\S+)(?: -> (\S+))? --$`)

// readableConfig is how much of a function's configuration space a container of a
// virt-launcher pod can read: only CAP_SYS_ADMIN reads more (Linux
// drivers/pci/pci-sysfs.c, pci_read_config). With 4096 bytes of zeros the hook's snapshot
// would say that no function has an extended capability.
const readableConfig = 64

// sysfsDirectory returns a machine as a directory: its snapshot, what its links lead to, and what
// libvirt wants to see of a PCI device and of this machine's CPUs.
func sysfsDirectory(t *testing.T, dir, snapshot string) string {
	t.Helper()
	data, err := os.ReadFile(snapshot)
	if err != nil {
		t.Fatal(err)
	}

	sysfs, files := filepath.Join(dir, "sys"), map[string]string{}
	name := ""
	for line := range strings.Lines(string(data)) {
		found := entry.FindStringSubmatch(strings.TrimSpace(line))
		switch {
		case found == nil:
			files[name] += line
		case found[2] == "":
			name = found[1]
			files[name] = ""

		default:
			link := filepath.Join(sysfs, found[1])
			target := filepath.Join(filepath.Dir(link), found[2])
			if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755),
				os.MkdirAll(target, 0o755), os.Symlink(found[2], link)); err != nil {
				t.Fatal(err)
			}

			if filepath.Dir(found[1]) == "bus/pci/devices" {
				write(t, filepath.Join(target, "config"), string(make([]byte, readableConfig)))
			}
		}
	}

	delete(files, "") // the header
	cpus := "devices/system/cpu/"
	for _, name := range []string{"online", "present", "possible"} {
		files[cpus+name] = string(command(t, "cat", "/sys/"+cpus+name))
	}

	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(sysfs, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(sysfs, name), text)
	}

	return sysfs
}

// exec runs a command as a container runtime does. Programs are looked for in path.
func (c *container) exec(
	ctx context.Context, path string, words []string, in io.Reader, out, errs io.Writer,
) error {
	inside := append([]string{
		"-t", c.pid, "--mount", "--pid", "--", "chroot", c.root, "/usr/bin/env", "-i",
		"PATH=" + path, "HOME=/root",
	}, words...)

	cmd := exec.CommandContext(ctx, "nsenter", inside...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	cmd.WaitDelay = time.Second // of a standard input that nobody closes
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}

	return asExit(err)
}

// asExit returns the error of a program in the streaming server's terms.
func asExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

const systemPath = "/usr/sbin:/usr/bin:/sbin:/bin"

func (c *container) output(words ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	if err := c.exec(context.Background(), systemPath, words, nil, &out, &errs); err != nil {
		return nil, fmt.Errorf("%v: %w: %s", words, err, &errs)
	}
	return out.Bytes(), nil
}

// start starts a domain, whose guest stays paused.
func (c *container) start(domain []byte) error {
	var out bytes.Buffer
	words := []string{
		"sh", "-c",
		"cat > /run/domain.xml && virsh -q -c qemu:///system create --paused /run/domain.xml",
	}

	if err := c.exec(context.Background(), systemPath, words, bytes.NewReader(domain), &out,
		&out); err != nil {
		return fmt.Errorf("start domain: %w: %s", err, &out)
	}

	return nil
}

func command(t *testing.T, words ...string) []byte {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", words, err, &errs)
	}

	return out
}

// until waits for a part to answer.
func until(t *testing.T, what string, answers func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(
		end); <-time.After(50 * time.Millisecond) {
		if err = answers(); err == nil {
			return
		}
	}

	t.Fatalf("%s does not answer: %v", what, err)
}
