package hooks_test

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
	"hook-sidecar/pkg/hooks/hookstest"
)

// Both sockets together handle one call at a time, which bounds memory.
func TestOneAtATime(t *testing.T) {
	var working, most atomic.Int32
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(func(_ context.Context, call hooks.Call) ([]byte, error) {
		now := working.Add(1)
		defer working.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		for range 1000 {
			runtime.Gosched() // let the others go first
		}
		return call.Domain, nil
	})})
	domain := make([]byte, 1<<20)
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = hookstest.Dial(t, server.HookSocket).OnDefineDomain(t.Context(), hooks.V1alpha3, domain, nil)
			} else {
				_, err = hookstest.Dial(t, server.PluginSocket).MutateDomain(t.Context(), "", domain, nil)
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

// stalling is a connection that sends a number of bytes and drops the rest.
type stalling struct {
	net.Conn
	left atomic.Int64
}

func (s *stalling) Write(data []byte) (int, error) {
	left := s.left.Add(int64(-len(data)))
	if left >= 0 {
		return s.Conn.Write(data)
	}
	if sent := int64(len(data)) + left; sent > 0 {
		if n, err := s.Conn.Write(data[:sent]); err != nil {
			return n, err
		}
	}
	return len(data), nil
}

// callStalled starts a call of which the server gets only a number of bytes.
func callStalled(t *testing.T, ctx context.Context, socket string, bytes int64) <-chan error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:socket", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			inner, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			s := &stalling{Conn: inner}
			s.left.Store(bytes)
			return s, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	ended := make(chan error, 1)
	go func() {
		_, err := v1alpha3.NewCallbacksClient(conn).OnDefineDomain(ctx, &v1alpha3.OnDefineDomainParams{DomainXML: make([]byte, 1<<20)})
		ended <- err
	}()
	return ended
}

// A client that does not finish its request ends with its patience, and the others
// do not wait for it.
func TestStalledClient(t *testing.T) {
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(hookstest.Echo), Patience: 10 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ended []<-chan error
	for _, bytes := range []int64{1 << 10, 60 << 10, 900 << 10} {
		ended = append(ended, callStalled(t, ctx, server.HookSocket, bytes))
	}
	client := hookstest.Dial(t, server.HookSocket)
	for range 3 {
		if got, err := client.OnDefineDomain(ctx, hooks.V1alpha3, []byte("<domain/>"), nil); err != nil || string(got) != "<domain/>" {
			t.Errorf("with stalled clients: %q, %v", got, err)
		}
	}
	for _, end := range ended {
		if err := <-end; status.Code(err) != codes.Canceled {
			t.Errorf("an incomplete call: %v, want Canceled", err)
		}
	}
}

// Handling a call may take longer than the patience.
func TestPatienceIsForClients(t *testing.T) {
	const patience = 5 * time.Millisecond
	server := hookstest.Start(t, hooks.Config{Patience: patience, Mutator: hookstest.Func(func(ctx context.Context, call hooks.Call) ([]byte, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(4 * patience):
			return call.Domain, nil
		}
	})})
	if _, err := hookstest.Dial(t, server.HookSocket).OnDefineDomain(t.Context(), hooks.V1alpha3, []byte("<domain/>"), nil); err != nil {
		t.Errorf("a long call: %v", err)
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
