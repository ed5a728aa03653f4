package sidecar

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"hook-sidecar/pkg/words"
)

const (
	// maxPending limits the lines of the log that wait: some twenty calls with 64 devices.
	maxPending = 2000

	// flushGrace is the time that the end of the process waits for the log. With the grace
	// of calls in progress (hooks.DefaultGrace) it is less than the 30 s after which a
	// kubelet kills.
	flushGrace = 2 * time.Second
)

// logWriter writes a log in the background: a write to a full pipe blocks, and a VM must
// not wait for the reader of a log. Lines that cannot be written are dropped, and their
// number is logged when writing works again.
type logWriter struct {
	to    io.Writer
	lines chan []byte   // that wait
	lost  atomic.Int64  // dropped lines that are not yet logged as lost
	end   chan struct{} // closed to end
	done  chan struct{} // closed when everything is written
}

func newLogWriter(to io.Writer) *logWriter {
	w := &logWriter{
		to:    to,
		lines: make(chan []byte, maxPending),
		end:   make(chan struct{}),
		done:  make(chan struct{}),
	}

	go w.drain()
	return w
}

// Write takes one line. It never blocks and never fails.
func (w *logWriter) Write(line []byte) (int, error) {
	select {
	case w.lines <- bytes.Clone(line):
	default:
		w.lost.Add(1)
	}
	return len(line), nil
}

// close ends the log after the calls' logs, and waits at most flushGrace until it is written: a
// call's log reads sysfs, which can hang in a driver.
func (w *logWriter) close(calls *sync.WaitGroup) {
	go func() {
		calls.Wait()
		close(w.end)
	}()
	select {
	case <-w.done:
	case <-time.After(flushGrace):
	}
}

func (w *logWriter) drain() {
	defer close(w.done)
	for {
		select {
		case line := <-w.lines:
			w.write(line)
		case <-w.end:
			for len(w.lines) > 0 {
				w.write(<-w.lines)
			}
			return
		}
	}
}

// write writes a line, and then the number of lines that were lost before it.
func (w *logWriter) write(line []byte) {
	if _, err := w.to.Write(line); err != nil {
		w.lost.Add(1)
		return
	}
	if lost := w.lost.Swap(0); lost > 0 {
		notice := slog.NewRecord(time.Now(), slog.LevelWarn,
			"log lines were lost: they could not be written", 0)
		notice.Add("lines", lost)
		if slog.NewJSONHandler(w.to, nil).Handle(context.Background(), notice) != nil {
			w.lost.Add(lost)
		}
	}
}

// Log is a log in JSON that is written in the background, and the calls that are not in it yet.
type Log struct {
	*slog.Logger // nil before Start

	writer *logWriter
	calls  sync.WaitGroup
}

// Start begins to write to a stream in the background, and returns what else is to write to that.
// It ignores SIGPIPE, with which Go's runtime would end the process when the reader is gone
// (os/signal, SIGPIPE).
func (l *Log) Start(to io.Writer) io.Writer {
	signal.Ignore(syscall.SIGPIPE)
	l.writer = newLogWriter(to)
	l.Logger = slog.New(slog.NewJSONHandler(words.JSONWriter{To: l.writer}, nil))
	return l.writer
}

// End waits for the log, if it was started.
func (l *Log) End() {
	if l.writer != nil {
		l.writer.close(&l.calls)
	}
}
