// Package hookstest runs hook servers for tests and benchmarks on real sockets, as
// httptest does for HTTP, and calls hooks as virt-launcher does.
package hookstest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

// Func is a function as a hooks.Mutator.
type Func func(ctx context.Context, call hooks.Call) ([]byte, error)

// Mutate calls the function.
func (f Func) Mutate(ctx context.Context, call hooks.Call) ([]byte, error) {
	return f(ctx, call)
}

// Echo returns the domain of the call, so it costs no more than the protocol.
func Echo(_ context.Context, call hooks.Call) ([]byte, error) {
	return call.Domain, nil
}

// Dir returns an empty directory that is removed when the test ends. Its path is
// short enough for sockets (hooks.MaxSocketPath); that of tb.TempDir contains the
// name of the test.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "hooks")
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})

	return dir
}

// Server is a running hooks.Server.
type Server struct {
	*hooks.Server
	HookSocket   string
	PluginSocket string

	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Start runs a server until the test ends, or until Stop or a Shutdown. A
// configuration without sockets gets both, in new directories. When Start returns,
// the server accepts calls.
func Start(tb testing.TB, config hooks.Config) *Server {
	tb.Helper()
	if config.HookSocket == "" && config.PluginSocket == "" {
		config.HookSocket = filepath.Join(Dir(tb), hooks.SocketName("hook-sidecar-0"))
		config.PluginSocket = filepath.Join(Dir(tb), "hook.sock")
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
			tb.Errorf("Run: %v", err)
		}
	})

	select {
	case <-s.Ready():
	case <-s.done:
		tb.Fatalf("the server did not start: %v", s.err)
	}

	return s
}

// Stop stops the server as SIGTERM does, and does not wait.
func (s *Server) Stop() { s.cancel() }

// Done returns a channel that is closed when Run has returned.
func (s *Server) Done() <-chan struct{} { return s.done }

// Wait waits until Run has returned and returns its error.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}

// Dial connects to a socket; the connection is closed when the test ends.
func Dial(tb testing.TB, socket string) *Client {
	tb.Helper()
	client, err := Connect(tb.Context(), socket)
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

// Shutdown calls Shutdown, as virt-launcher does when the guest has ended.
func Shutdown(ctx context.Context, socket string) (err error) {
	conn, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, conn.Close()) }()
	_, err = v1alpha3.NewCallbacksClient(conn).Shutdown(ctx, &v1alpha3.ShutdownParams{})
	return err
}
