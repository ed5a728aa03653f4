package hooks_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// tooLong is much longer than the end of a server takes here, and shorter than
// gRPC's own defaults would make it.
const tooLong = 30 * time.Second

// blocker is a mutator that reports when it is called and waits to be released.
type blocker struct {
	called  chan struct{}
	release chan struct{}
}

func newBlocker() *blocker {
	return &blocker{called: make(chan struct{}, 1), release: make(chan struct{})}
}

func (b *blocker) Mutate(_ context.Context, call hooks.Call) ([]byte, error) {
	b.called <- struct{}{}
	<-b.release
	return call.Domain, nil
}

// reply is the result of a call in the background.
type reply struct {
	domain []byte
	err    error
}

func callInBackground(t *testing.T, socket string) <-chan reply {
	client := hookstest.Dial(t, socket)
	got := make(chan reply, 1)
	go func() {
		domain, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, []byte("<domain/>"), nil)
		got <- reply{domain, err}
	}()

	return got
}

// waitGone waits until the server has begun to stop and has removed its socket.
func waitGone(path string) {
	for {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return
		}
		runtime.Gosched()
	}
}

func waitDone(t *testing.T, server *hookstest.Server) {
	t.Helper()
	select {
	case <-server.Done():
	case <-time.After(tooLong):
		t.Fatal("the server does not end")
	}

	if err := server.Wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// virt-launcher connects to every file in the directory, and gives up on the pod
// when a socket accepts the connection and does not answer Info.
func TestFirstConnectionGetsInfo(t *testing.T) {
	for range 20 {
		socket := filepath.Join(hookstest.Dir(t), "a.sock")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- hooks.New(hooks.Config{Mutator: newBlocker(), HookSocket: socket}).Run(ctx)
		}()

		var client *hookstest.Client
		for err := errors.New("not yet"); err != nil; {
			client, err = hookstest.Connect(ctx, socket)
		}

		if _, err := client.Info(ctx); err != nil {
			t.Errorf("Info on the first connection: %v", err)
		}

		cancel()
		if err := errors.Join(<-ended, client.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestEnd(t *testing.T) {
	shutdown := func(t *testing.T, server *hookstest.Server) {
		if err := hookstest.Shutdown(t.Context(), server.HookSocket); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	}

	stop := func(_ *testing.T, server *hookstest.Server) { server.Stop() }
	for name, end := range map[string]func(*testing.T, *hookstest.Server){
		"Shutdown":           shutdown,
		"end of the context": stop,
		"Shutdown and the context": func(t *testing.T, s *hookstest.Server) {
			shutdown(t, s)
			stop(t, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			mutator := newBlocker()
			server := hookstest.Start(t, hooks.Config{Mutator: mutator})
			underway := callInBackground(t, server.HookSocket)
			<-mutator.called
			end(t, server)
			waitGone(server.HookSocket)
			waitGone(server.PluginSocket)
			if _, err := hookstest.Connect(t.Context(), server.HookSocket); !errors.Is(err,
				fs.ErrNotExist) {
				t.Errorf("Dial after the end: %v, want %v", err, fs.ErrNotExist)
			}

			close(mutator.release)
			if got := <-underway; got.err != nil || string(got.domain) != "<domain/>" {
				t.Errorf("the call in progress: %q, %v, want its answer", got.domain, got.err)
			}

			waitDone(t, server)
			waitNoGoroutines(t)
		})
	}
}

// waitNoGoroutines waits until no goroutine runs code of a server.
func waitNoGoroutines(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for start := time.Now(); time.Since(start) < tooLong; runtime.Gosched() {
		stacks = stacks[:runtime.Stack(stacks[:cap(stacks)], true)]
		if !bytes.Contains(stacks, []byte("hooks.(*Server).")) &&
			!bytes.Contains(stacks, []byte("hooks.(*endpoint).")) {
			return
		}
	}

	t.Errorf("a goroutine of the server is still running:\n%s", stacks)
}

func TestSecondShutdown(t *testing.T) {
	mutator := newBlocker()
	server := hookstest.Start(t, hooks.Config{Mutator: mutator})
	conn, err := grpc.NewClient("unix:"+server.HookSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	expect.NoError(t, err)
	defer conn.Close()
	client := v1alpha3.NewCallbacksClient(conn)

	// The call in progress keeps the server running between the two.
	underway := callInBackground(t, server.HookSocket)
	<-mutator.called
	if _, err := client.Shutdown(t.Context(), &v1alpha3.ShutdownParams{}); err != nil {
		t.Errorf("first Shutdown: %v", err)
	}

	// The server is draining the connection, so it may answer or refuse the second
	// call. The call must not hang or fail otherwise.
	if _, err := client.Shutdown(t.Context(), &v1alpha3.ShutdownParams{}); err != nil &&
		status.Code(err) != codes.Unavailable {
		t.Errorf("second Shutdown: %v", err)
	}

	close(mutator.release)
	if got := <-underway; got.err != nil {
		t.Errorf("the call in progress: %v", got.err)
	}

	waitDone(t, server)
}

func TestContextDoneBeforeRun(t *testing.T) {
	socket := filepath.Join(hookstest.Dir(t), "a.sock")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if err := hooks.New(hooks.Config{
		Mutator: newBlocker(), HookSocket: socket,
	}).Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}

	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket after Run: %v, want it gone", err)
	}
}

func TestInvalidConfig(t *testing.T) {
	mutator := hookstest.Func(mark)
	socket := filepath.Join(hookstest.Dir(t), "a.sock")
	tests := map[string]struct {
		config hooks.Config
		want   string
	}{
		"no socket": {hooks.Config{Mutator: mutator}, "no socket"},
		"one socket": {hooks.Config{
			Mutator: mutator, HookSocket: socket, PluginSocket: socket,
		}, socket},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := hooks.New(tt.config)
			if err := server.Run(t.Context()); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run: %v, want an error with %q", err, tt.want)
			}

			select {
			case <-server.Ready():
				t.Error("a server that failed is ready")
			default:
			}

			if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the socket after a failed Run: %v, want none", err)
			}
		})
	}
}
