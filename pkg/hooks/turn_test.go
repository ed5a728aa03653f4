package hooks_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
	"hook-sidecar/pkg/hooks/hookstest"
)

// Memory is bounded by one call, however many come in, on both sockets.
func TestOneAtATime(t *testing.T) {
	var working, most atomic.Int32
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(func(_ context.Context, call hooks.Call) ([]byte, error) {
		now := working.Add(1)
		defer working.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		for range 1000 {
			runtime.Gosched() // whoever else is there goes first
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
		t.Errorf("%d calls were worked on at once, want one after the other", got)
	}
}

// A client that begins a call and sends no request holds nobody up for longer
// than the patience, and gets its answer when it goes on.
func TestStalledClient(t *testing.T) {
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(hookstest.Echo), Patience: 10 * time.Millisecond})
	conn, err := grpc.NewClient("unix:"+server.HookSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stalled []grpc.ClientStream
	for range 3 {
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, v1alpha3.Callbacks_OnDefineDomain_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		stalled = append(stalled, stream)
	}
	client := hookstest.Dial(t, server.HookSocket)
	for range 3 {
		if got, err := client.OnDefineDomain(ctx, hooks.V1alpha3, []byte("<domain/>"), nil); err != nil || string(got) != "<domain/>" {
			t.Errorf("beside stalled clients: %q, %v", got, err)
		}
	}
	for _, stream := range stalled {
		var result v1alpha3.OnDefineDomainResult
		if err := stream.SendMsg(&v1alpha3.OnDefineDomainParams{DomainXML: []byte("<late/>")}); err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&result); err != nil || string(result.GetDomainXML()) != "<late/>" {
			t.Errorf("a client that goes on: %q, %v", result.GetDomainXML(), err)
		}
	}
}

// Info is answered while a call is worked on: virt-launcher gives it a second.
func TestInfoHasNoTurn(t *testing.T) {
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
