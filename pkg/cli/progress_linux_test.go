package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/test/expect"
)

// TestProgress: on a terminal a line of progress replaces the one before, and is never so long that
// the terminal would begin another (ioctl_tty(2) has the requests for a pseudoterminal).
func TestProgress(t *testing.T) {
	const width = 20
	shows, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	expect.NoError(t, err)
	defer shows.Close()
	expect.NoError(t, unix.IoctlSetPointerInt(int(shows.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetUint32(int(shows.Fd()), unix.TIOCGPTN)
	expect.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	expect.NoError(t, err)
	defer terminal.Close()
	expect.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: 10, Col: width}))

	p := cli.Program{Streams: cli.Streams{Err: terminal}}
	for text, want := range map[string]string{
		"":                                     "",
		"pods":                                 "pods",
		strings.Repeat("a", width-1):           strings.Repeat("a", width-1),
		strings.Repeat("a", width):             strings.Repeat("a", width-2) + "…",
		"log of virt-launcher-dgx-x7k2p\x1b[m": "log of virt-launch…",
	} {
		p.Progress(text)
		line := make([]byte, 100)
		n, err := shows.Read(line)
		expect.NoError(t, err)
		expect.Same(t, "\r\x1b[K"+want, string(line[:n]), "line (-want +got)")
	}
}
