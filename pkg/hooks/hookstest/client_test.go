package hookstest_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

func TestConnectReportsTheCause(t *testing.T) {
	dir := hookstest.Dir(t)
	stale := filepath.Join(dir, "stale.sock")
	listener := listen(t, stale)
	listener.SetUnlinkOnClose(false)
	expect.NoError(t, listener.Close())

	for path, want := range map[string]error{
		filepath.Join(dir, "none.sock"): fs.ErrNotExist,
		stale:                           syscall.ECONNREFUSED,
	} {
		if _, err := hookstest.Connect(t.Context(), path); !errors.Is(err, want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("Connect: %v, want %v and the path", err, want)
		}
	}
}

func TestConnectOfAnotherServer(t *testing.T) {
	path := filepath.Join(hookstest.Dir(t), "a.sock")
	listener := listen(t, path)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}

			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}()

	if _, err := hookstest.Connect(t.Context(), path); err == nil ||
		!strings.Contains(err.Error(), "gRPC") {
		t.Errorf("Connect of a peer that hangs up: %v", err)
	}

	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}

func TestConnectGivesUp(t *testing.T) {
	path := filepath.Join(hookstest.Dir(t), "a.sock")
	listener := listen(t, path) // accepts connections and never answers
	ctx, cancel := context.WithCancel(t.Context())
	accepted := make(chan net.Conn, 1)
	go func() {
		defer cancel()
		conn, err := listener.Accept()
		if err != nil {
			t.Errorf("accept: %v", err)
		}

		accepted <- conn
	}()

	if _, err := hookstest.Connect(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("Connect of a silent peer: %v, want %v", err, context.Canceled)
	}

	if err := errors.Join((<-accepted).Close(), listener.Close()); err != nil {
		t.Error(err)
	}
}

// KubeVirt sends this authority. By default gRPC would send the path, which HTTP/2
// servers may refuse.
func TestClientSendsKubeVirtsAuthority(t *testing.T) {
	path := filepath.Join(hookstest.Dir(t), "a.sock")
	received := make(chan []string, 1)
	server := grpc.NewServer(grpc.UnaryInterceptor(
		func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			headers, _ := metadata.FromIncomingContext(ctx)
			received <- headers[":authority"]
			return &info.InfoResult{}, nil
		}))

	info.RegisterInfoServer(server, info.UnimplementedInfoServer{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listen(t, path)) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	var client *hookstest.Client
	for err := errors.New("not yet"); err != nil; {
		client, err = hookstest.Connect(t.Context(), path)
	}

	if _, err := client.Info(t.Context()); err != nil {
		t.Error(err)
	}

	if got := <-received; len(got) != 1 || got[0] != "localhost" {
		t.Errorf("authority %q, want localhost", got)
	}

	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	expect.NoError(t, err)
	return listener
}
