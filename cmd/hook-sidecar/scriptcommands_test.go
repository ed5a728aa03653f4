package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/script"
)

// scriptCommands returns the commands of the scripts in addition to those of testscript.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits":     script.Exits,
		"ready":     ready,
		"shutdown":  shutdown,
		"terminate": terminate,
		"logged":    logged,
	}
}

// readyWithin limits the wait for a server that starts on a busy machine. It is
// polled at intervals of readyEvery.
const (
	readyWithin = 30 * time.Second
	readyEvery  = 5 * time.Millisecond
)

// ready PATTERN [COUNT]
//
// waits until servers accept connections on the COUNT (1) sockets that match.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	count := 1
	if len(args) == 2 {
		var err error
		count, err = strconv.Atoi(args[1])
		ts.Check(err)
	}

	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: ready PATTERN [COUNT]")
	}

	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()

	for {
		err := connectAll(ctx, ts.MkAbs(args[0]), count)
		if err == nil {
			return
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("%s within %s: %v", args[0], readyWithin, err)
		}
	}
}

// connectAll connects to each of the count sockets that match.
func connectAll(ctx context.Context, pattern string, count int) error {
	sockets, err := filepath.Glob(pattern)
	if err == nil && len(sockets) != count {
		err = fmt.Errorf("%d sockets, want %d", len(sockets), count)
	}

	for _, socket := range sockets {
		if err != nil {
			return err
		}

		var client *hookstest.Client
		if client, err = hookstest.Connect(ctx, socket); err == nil {
			err = client.Close()
		}
	}

	return err
}

// shutdown SOCKET
//
// calls Shutdown of a server, as virt-launcher does when the guest has ended.
func shutdown(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shutdown SOCKET")
	}
	ts.Check(hookstest.Shutdown(context.Background(), ts.MkAbs(args[0])))
}

// terminate [COUNT]
//
// sends SIGTERM, COUNT times or until it has ended, to every program in the background: wait
// checks how it ended.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	count := 1
	if len(args) == 1 {
		var err error
		count, err = strconv.Atoi(args[0])
		ts.Check(err)
	}

	if neg || len(args) > 1 || len(ts.BackgroundCmds()) == 0 {
		ts.Fatalf("usage: terminate [COUNT], with a program in the background")
	}

	for _, cmd := range ts.BackgroundCmds() {
		for range count {
			err := cmd.Process.Signal(syscall.SIGTERM)
			if errors.Is(err, os.ErrProcessDone) {
				break
			}
			ts.Check(err)
		}
	}
}

// logged COUNT MESSAGE field...
//
// checks standard error, where every line has to be a JSON object. COUNT of them have
// the message, each with these fields (and time, level, msg) and no other. A field
// name=value has to have that value.
func logged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: logged COUNT MESSAGE field...")
	}

	want := []string{"level", "msg", "time"}
	values := map[string]string{}
	for _, field := range args[2:] {
		name, value, given := strings.Cut(field, "=")
		if given {
			values[name] = value
		}
		want = append(want, name)
	}

	slices.Sort(want)
	want = slices.Compact(want)
	count := 0
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			ts.Fatalf("the log has a line that is not a JSON object: %s", line)
		}

		if string(fields["msg"]) != strconv.Quote(args[1]) {
			continue
		}

		count++
		var got []string
		for name, value := range fields {
			got = append(got, name)
			if wanted, given := values[name]; given && wanted != strings.Trim(string(value), `"`) {
				ts.Fatalf("field %s is %s, want %s, in %s", name, value, wanted, line)
			}
		}

		slices.Sort(got)
		if !slices.Equal(got, want) {
			ts.Fatalf("fields %q, want %q", got, want)
		}
	}

	if strconv.Itoa(count) != args[0] {
		ts.Fatalf("%d lines with the message %q, want %s", count, args[1], args[0])
	}
}
