package hooks_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// Both sockets together handle one call at a time, which bounds memory.
func TestOneAtATime(t *testing.T) {
	var working, most atomic.Int32
	server := hookstest.Start(t,
		hooks.Config{Mutator: hookstest.Func(func(_ context.Context, call hooks.Call) ([]byte,
			error) {
			now := working.Add(1)
			defer working.Add(-1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen,
				now); seen = most.Load() {
			}

			for range 1000 {
				runtime.Gosched() // let the others go first
			}

			return call.Domain, nil
		})})

	domain := make([]byte, 1<<20)
	var calls sync.WaitGroup
	for i := range 3 {
		calls.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = hookstest.Dial(t, server.HookSocket).OnDefineDomain(t.Context(),
					hooks.V1alpha3, domain, nil)
			} else {
				_, err = hookstest.Dial(t, server.PluginSocket).MutateDomain(t.Context(), "",
					domain, nil)
			}

			if err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}

	calls.Wait()
	if got := most.Load(); got != 1 {
		t.Errorf("%d calls were handled at once, want 1", got)
	}
}

// stalling is a connection that sends a number of bytes and drops the rest, as that of
// a process that is stopped.
type stalling struct {
	net.Conn
	left atomic.Int64
}

func (s *stalling) Write(data []byte) (int, error) {
	left := s.left.Add(int64(-len(data)))
	if sent := min(int64(len(data)), int64(len(data))+left); sent > 0 {
		if n, err := s.Conn.Write(data[:sent]); err != nil {
			return n, err
		}
	}

	return len(data), nil
}

// callStalled starts a call and sends only a number of its bytes.
func callStalled(t *testing.T, socket string, bytes int64) <-chan error {
	t.Helper()
	conn,
		err := grpc.NewClient("passthrough:socket",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			inner, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			s := &stalling{Conn: inner}
			s.left.Store(bytes)
			return s, err
		}))

	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})

	ended := make(chan error, 1)
	go func() {
		_, err := v1alpha3.NewCallbacksClient(conn).OnDefineDomain(t.Context(),
			&v1alpha3.OnDefineDomainParams{
				DomainXML: make([]byte, 1<<20),
			})
		ended <- err
	}()

	return ended
}

// The connection of a client that stalls is closed, and other clients do not wait for
// it. gRPC sends the first ping after a second at the earliest.
func TestStalledClient(t *testing.T) {
	t.Parallel()
	server := hookstest.Start(t, hooks.Config{
		Mutator: hookstest.Func(hookstest.Echo), Patience: 500 * time.Millisecond,
	})

	var ended []<-chan error
	for _, bytes := range []int64{1 << 10, 900 << 10} {
		ended = append(ended, callStalled(t, server.HookSocket, bytes))
	}

	client := hookstest.Dial(t, server.HookSocket)
	for range 3 {
		if got, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, []byte("<domain/>"),
			nil); err != nil || string(got) != "<domain/>" {
			t.Errorf("with stalled clients: %q, %v", got, err)
		}
	}

	for _, end := range ended {
		if err := <-end; status.Code(err) != codes.Unavailable {
			t.Errorf("an incomplete call: %v, want Unavailable", err)
		}
	}
}

// The connection of a client that begins a call once its idle connection is told to go away, and
// stalls then, is closed, too: gRPC pings no more.
func TestStalledWhileIdle(t *testing.T) {
	t.Parallel()
	server := hookstest.Start(t, hooks.Config{
		Mutator: hookstest.Func(hookstest.Echo), Patience: 100 * time.Millisecond,
	})

	conn, err := net.Dial("unix", server.HookSocket)
	expect.NoError(t, err)
	defer conn.Close()

	_, err = io.WriteString(conn, http2.ClientPreface)
	expect.NoError(t, err)
	framer := http2.NewFramer(conn, conn)
	expect.NoError(t, framer.WriteSettings())

	for isIdle := false; !isIdle; {
		frame, err := framer.ReadFrame()
		expect.NoError(t, err)
		_, isIdle = frame.(*http2.GoAwayFrame)
	}

	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain"},
		{Name: ":authority", Value: "localhost"}, {Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	} {
		expect.NoError(t, encoder.WriteField(field))
	}

	expect.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true,
	}))

	// of a message of 256 bytes
	expect.NoError(t, framer.WriteData(1, false, []byte{0, 0, 0, 1, 0}))

	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want the connection closed", err)
	}
}

// virt-launcher gives Info one second, so it does not wait for other calls.
func TestInfoDoesNotWait(t *testing.T) {
	mutator := newBlocker()
	server := hookstest.Start(t, hooks.Config{Mutator: mutator})
	underway := callInBackground(t, server.HookSocket)
	<-mutator.called
	if _, err := hookstest.Dial(t, server.HookSocket).Info(t.Context()); err != nil {
		t.Errorf("Info during a call: %v", err)
	}

	close(mutator.release)
	if got := <-underway; got.err != nil {
		t.Error(got.err)
	}
}

// TestConnectionLimit: the sockets of a server have three connections together, and one that ends
// makes room.
func TestConnectionLimit(t *testing.T) {
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(mark)})
	sockets := []string{server.HookSocket, server.PluginSocket}
	var open []*hookstest.Client
	for i := range 3 {
		client, err := hookstest.Connect(t.Context(), sockets[i%2])
		expect.NoError(t, err)
		open = append(open, client)
	}

	for _, socket := range sockets {
		if client, err := hookstest.Connect(t.Context(), socket); err == nil {
			t.Errorf("%s has a fourth connection", socket)
			expect.NoError(t, client.Close())
		}
	}

	for _, client := range open {
		expect.NoError(t, client.Close())
	}

	for { // until the server has seen that
		if client, err := hookstest.Connect(t.Context(), server.HookSocket); err == nil {
			expect.NoError(t, client.Close())
			return
		}
		runtime.Gosched()
	}
}

// A connection past the limit is closed at once, and silent connections, which are in
// the way of nobody until then, are closed in time.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	server := hookstest.Start(t, hooks.Config{
		Mutator: hookstest.Func(mark), Patience: 500 * time.Millisecond,
	})

	var silent []net.Conn
	for range 40 {
		conn, err := net.Dial("unix", server.HookSocket)
		expect.NoError(t, err)
		defer conn.Close()
		silent = append(silent, conn)
	}

	for i, conn := range silent {
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("connection %d: %v, want it closed", i, err)
		}
	}

	if _, err := hookstest.Dial(t, server.HookSocket).Info(t.Context()); err != nil {
		t.Errorf("Info after that: %v", err)
	}
}

// TestMostConnections: three connections are served, while all of them are open, and the next is not.
func TestMostConnections(t *testing.T) {
	const most = 3
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(mark)})
	for range most {
		client := hookstest.Dial(t, server.HookSocket)
		_, err := client.Info(t.Context())
		expect.NoError(t, err)
	}

	conn, err := net.Dial("unix", server.HookSocket)
	expect.NoError(t, err)
	defer conn.Close()
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("connection %d: %v, want it closed", most+1, err)
	}
}

// AwaitReply returns when the client hangs up, and soon where it does not.
func TestAwaitReply(t *testing.T) {
	returned := make(chan struct{})
	server := hookstest.Start(t,
		hooks.Config{Mutator: hookstest.Func(func(ctx context.Context, call hooks.Call) ([]byte,
			error) {
			go func() {
				hooks.AwaitReply(ctx)
				returned <- struct{}{}
			}()
			return call.Domain, nil
		})})

	for _, hangUp := range []bool{true, false} {
		client, err := hookstest.Connect(t.Context(), server.HookSocket)
		expect.NoError(t, err)
		if _, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, []byte("<domain/>"),
			nil); err != nil {
			t.Error(err)
		}

		if !hangUp {
			<-returned
		}

		if err := client.Close(); err != nil {
			t.Error(err)
		}

		if hangUp {
			<-returned
		}
	}

	hooks.AwaitReply(t.Context()) // of no call
}
