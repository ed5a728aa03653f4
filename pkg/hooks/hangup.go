package hooks

import (
	"context"
	"time"

	"google.golang.org/grpc/stats"
)

// hangUps tell the calls of a connection when it has ended.
type hangUps struct{}

// hangUp is the key of a connection's channel in the context of its calls.
type hangUp struct{}

// TagConn gives a connection a channel that is closed when it ends.
func (hangUps) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, hangUp{}, make(chan struct{}))
}

// HandleConn closes the channel at the end.
func (hangUps) HandleConn(ctx context.Context, event stats.ConnStats) {
	if _, isEnd := event.(*stats.ConnEnd); isEnd {
		close(ctx.Value(hangUp{}).(chan struct{}))
	}
}

// TagRPC adds nothing to a call.
func (hangUps) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC ignores the events of a call: stats.End comes before its reply is written.
func (hangUps) HandleRPC(context.Context, stats.RPCStats) {}

// replyTime is enough to write a reply and to read it.
const replyTime = 20 * time.Millisecond

// AwaitReply waits until the client of a Mutator's context has its reply: until it hangs up, as
// virt-launcher does after each call, or for replyTime. Another context has no client.
func AwaitReply(ctx context.Context) {
	end, isCall := ctx.Value(hangUp{}).(chan struct{})
	if !isCall {
		return
	}

	select {
	case <-end:
	case <-time.After(replyTime):
	}
}
