package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	// maxPending limits the bytes of the log that wait: some twenty calls with 64 devices.
	maxPending = 512 << 10

	// flushGrace is the time that the end of the process waits for the log. With the grace
	// of calls in progress (hooks.DefaultGrace) it is less than the 30 s after which a
	// kubelet kills.
	flushGrace = 2 * time.Second
)

// logWriter writes a log in the background: a write to a full pipe blocks, and a VM must
// not wait for the reader of a log. Lines that cannot be written are dropped, and their
// number is logged when writing works again.
type logWriter struct {
	to   io.Writer
	wake chan struct{} // full when there is something to write
	end  chan struct{} // closed to end
	done chan struct{} // closed when everything is written

	mu      sync.Mutex
	pending []byte // whole lines
	lost    int    // dropped lines that are not yet logged as lost
}

func newLogWriter(to io.Writer) *logWriter {
	w := &logWriter{to: to, wake: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// Write takes whole lines. It never blocks and never fails.
func (w *logWriter) Write(lines []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending)+len(lines) > maxPending {
		w.lost += bytes.Count(lines, []byte("\n"))
	} else {
		w.pending = append(w.pending, lines...)
	}
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
	return len(lines), nil
}

// close ends the log, and waits at most flushGrace until it is written.
func (w *logWriter) close() {
	close(w.end)
	select {
	case <-w.done:
	case <-time.After(flushGrace):
	}
}

func (w *logWriter) run() {
	defer close(w.done)
	for {
		select {
		case <-w.wake:
			w.flush()
		case <-w.end:
			w.flush()
			return
		}
	}
}

// flush writes the pending lines, and then the number of lines that were lost.
func (w *logWriter) flush() {
	w.mu.Lock()
	lines, lost := w.pending, w.lost
	w.pending, w.lost = nil, 0
	w.mu.Unlock()

	written, err := w.to.Write(lines)
	lost += bytes.Count(lines[written:], []byte("\n"))
	if err == nil && lost > 0 {
		notice := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines were lost: they could not be written", 0)
		notice.Add("lines", lost)
		if err = slog.NewJSONHandler(w.to, nil).Handle(context.Background(), notice); err == nil {
			lost = 0
		}
	}
	w.mu.Lock()
	w.lost += lost
	w.mu.Unlock()
}

// logInBackground writes standard error in the background. It ignores SIGPIPE, with
// which Go's runtime would end the process when the reader is gone (os/signal, SIGPIPE).
func (a *app) logInBackground() {
	signal.Ignore(syscall.SIGPIPE)
	a.log = newLogWriter(a.Err)
	a.Err = a.log
}
