package hooks

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

// turns has one call at a time received, worked on and answered, on all sockets
// of a server. virt-launcher makes one at a time; many large ones at once would
// each need their memory, of which a sidecar has little.
//
// gRPC holds 64 KiB of a call whose turn has not come (streamWindow).
type turns struct {
	next     chan struct{} // holds the turn that is on
	patience time.Duration
}

// streamWindow is how much of a request, in bytes, gRPC takes before it is
// asked for it. Left to itself gRPC makes it grow to 16 MiB.
const streamWindow = 64 << 10

func newTurns(patience time.Duration) *turns {
	return &turns{next: make(chan struct{}, 1), patience: patience}
}

// turn is that of one call. A client that does not finish its request, or does
// not take its answer, keeps the others waiting for no longer than the
// patience: its turn then passes, and it gets another when its request is whole.
type turn struct {
	turns *turns

	mu    sync.Mutex
	held  bool
	timer *time.Timer // passes a turn that a client keeps
}

// turnKey is the key of a context's *turn.
type turnKey struct{}

// TagRPC is part of stats.Handler: gRPC calls it for a new call. Info and
// Shutdown have no turns, for virt-launcher gives Info one second (KubeVirt
// pkg/hooks/manager.go).
func (t *turns) TagRPC(ctx context.Context, rpc *stats.RPCTagInfo) context.Context {
	switch rpc.FullMethodName {
	case info.Info_Info_FullMethodName, v1alpha3.Callbacks_Shutdown_FullMethodName:
		return ctx
	}
	return context.WithValue(ctx, turnKey{}, &turn{turns: t})
}

// HandleRPC is part of stats.Handler. gRPC reports the begin of a call before
// it receives the request, and waits meanwhile.
func (t *turns) HandleRPC(ctx context.Context, event stats.RPCStats) {
	turn, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return
	}
	switch event.(type) {
	case *stats.Begin:
		if turn.take(ctx) == nil {
			turn.passSoon()
		}
	case *stats.End:
		turn.pass()
	}
}

// TagConn is part of stats.Handler.
func (t *turns) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn is part of stats.Handler.
func (t *turns) HandleConn(context.Context, stats.ConnStats) {}

// work handles a request that is there, in its turn.
func (t *turns) work(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error) {
	turn, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return handle(ctx, request)
	}
	if err := turn.take(ctx); err != nil {
		return nil, status.FromContextError(err).Err() // the client has hung up
	}
	defer turn.passSoon()
	return handle(ctx, request)
}

// take waits for the turn, and keeps one that is held from passing. The error
// is the context's when that ends first.
func (t *turn) take(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if t.held {
		return nil
	}
	select {
	case t.turns.next <- struct{}{}:
		t.held = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passSoon lets the turn pass when the patience ends, unless it is taken before.
func (t *turn) passSoon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(t.turns.patience, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.timer == timer {
			t.release()
		}
	})
	t.timer = timer
}

// pass ends the turn.
func (t *turn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.release()
}

// release hands the turn on, if it is held.
func (t *turn) release() {
	if t.held {
		t.held, t.timer = false, nil
		<-t.turns.next
	}
}
