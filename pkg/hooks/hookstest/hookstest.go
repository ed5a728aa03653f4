// Package hookstest runs hook servers for tests and benchmarks, as httptest
// does for HTTP: real sockets, and mutators that are plain values.
package hookstest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hook-sidecar/pkg/hooks"
)

// Func is a function as a hooks.Mutator.
type Func func(ctx context.Context, call hooks.Call) ([]byte, error)

// Mutate calls the function.
func (f Func) Mutate(ctx context.Context, call hooks.Call) ([]byte, error) {
	return f(ctx, call)
}

// Echo returns the domain of every call as it came. What it costs is the cost
// of the protocol.
func Echo(_ context.Context, call hooks.Call) ([]byte, error) {
	return call.Domain, nil
}

// Folder returns an empty folder that is removed when the test ends. Its path
// is shorter than that of tb.TempDir, which holds the test's name: the path of
// a unix socket has 107 bytes at most.
func Folder(tb testing.TB) string {
	tb.Helper()
	folder, err := os.MkdirTemp("", "hooks")
	if err != nil {
		tb.Fatalf("make a folder for sockets: %v", err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			tb.Errorf("remove the folder of the sockets: %v", err)
		}
	})
	return folder
}

// Server is a hooks.Server that runs.
type Server struct {
	*hooks.Server
	HookSocket   string
	PluginSocket string

	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Start runs a server until the test ends, or until Stop or a Shutdown.
// Where the configuration names no socket, it gets both, in a new folder. The
// server takes calls when Start returns; the test fails when it cannot.
func Start(tb testing.TB, config hooks.Config) *Server {
	tb.Helper()
	if config.HookSocket == "" && config.PluginSocket == "" {
		config.HookSocket = filepath.Join(Folder(tb), hooks.SocketName("hook-sidecar-0"))
		config.PluginSocket = filepath.Join(Folder(tb), "hook.sock")
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		Server:       hooks.New(config),
		HookSocket:   config.HookSocket,
		PluginSocket: config.PluginSocket,
		cancel:       cancel,
		done:         make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		s.err = s.Run(ctx)
	}()
	tb.Cleanup(func() {
		s.Stop()
		if err := s.Wait(); err != nil {
			tb.Errorf("the server did not end well: %v", err)
		}
	})
	select {
	case <-s.Ready():
	case <-s.done:
		tb.Fatalf("the server did not start: %v", s.err)
	}
	return s
}

// Stop asks the server to end, as SIGTERM does, and does not wait.
func (s *Server) Stop() { s.cancel() }

// Done returns a channel that is closed when Run has returned.
func (s *Server) Done() <-chan struct{} { return s.done }

// Wait waits for the end of the server and returns what Run returned.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}

// Dial connects to a socket; the connection is closed when the test ends.
func Dial(tb testing.TB, socket string) *hooks.Client {
	tb.Helper()
	client, err := hooks.Dial(tb.Context(), socket)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Error(err)
		}
	})
	return client
}

// BenchmarkOnDefineDomain measures one call after the other through a real
// socket, on one connection, and reports the median and the 99th percentile
// beside Go's mean. Run with Echo it gives the figure to compare with.
func BenchmarkOnDefineDomain(b *testing.B, mutator hooks.Mutator, domain, vmi []byte) {
	b.Helper()
	server := Start(b, hooks.Config{Mutator: mutator})
	b.SetBytes(int64(len(domain) + len(vmi)))
	b.ReportAllocs()
	var took []time.Duration
	var reply []byte
	for b.Loop() {
		start := time.Now()
		client, err := hooks.Dial(b.Context(), server.HookSocket)
		if err != nil {
			b.Fatal(err)
		}
		if reply, err = client.OnDefineDomain(b.Context(), hooks.V1alpha3, domain, vmi); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		if err := client.Close(); err != nil {
			b.Fatal(err)
		}
	}
	if !bytes.Contains(reply, []byte("<domain")) {
		b.Fatalf("the reply of %d bytes is no domain", len(reply))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}
