package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/test/expect"
)

// TestProgress: on a terminal a line of progress replaces the one before, is never so long that the
// terminal would begin another, and is replaced by a message (ioctl_tty(2) has the requests for a
// pseudoterminal).
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
		shown := func(want string) {
			t.Helper()
			line := make([]byte, len(want)) // a read may return a part of it
			_, err := io.ReadFull(shows, line)
			expect.NoError(t, err)
			expect.Same(t, want, string(line), "line (-want +got)")
		}

		p.Progress(text)
		shown("\r\x1b[K" + want)
		p.Say("a message")
		message := "a message\r\n"
		if text != "" {
			message = "\r\x1b[K" + message
		}

		shown(message)
	}
}

// TestSayConcurrently: several reads may say something at once; go test -race finds it if they must
// not.
func TestSayConcurrently(t *testing.T) {
	const count = 8
	var said bytes.Buffer
	p := cli.Program{Streams: cli.Streams{Err: &said}}
	var reads sync.WaitGroup
	for range count {
		reads.Go(func() { p.Say("warning") })
	}

	reads.Wait()
	expect.Same(t, strings.Repeat("warning\n", count), said.String(), "lines (-want +got)")
}
