package hooks

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxConnections is the number of connections that a server keeps open.
	// virt-launcher has one at a time.
	maxConnections = 32

	// With so many connections or more, the next one waits for pace, so that the
	// garbage collector keeps up with clients that connect again and again.
	crowd = 8
	pace  = 2 * time.Millisecond
)

// connections are the open connections of a server.
type connections struct {
	mu     sync.Mutex
	open   []*conn // oldest first
	closed bool
}

// conn is one of them.
type conn struct {
	net.Conn
	all     *connections
	sending chan struct{} // full while a request that is not tiny is sent and answered
	arrived atomic.Int32  // requests that have arrived and are not answered
	held    atomic.Bool   // holds gate.large

	called  atomic.Bool   // a call has begun
	used    atomic.Bool   // a call has ended
	wrote   chan struct{} // full when something was written since
	closing sync.Once

	ends    sync.Mutex
	ended   bool     // no reply will be written any more
	replied []func() // to be called when the replies are written
}

// connKey is the key of a context's *conn.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func connOf(ctx context.Context) *conn { return ctx.Value(connKey{}).(*conn) }

// add adds a connection. When there are too many, it closes the oldest that waits for
// its client, so that clients that only connect keep no other one out.
func (all *connections) add(added net.Conn) *conn {
	c := &conn{Conn: added, all: all, sending: make(chan struct{}, 1), wrote: make(chan struct{}, 1)}
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.open) == maxConnections {
		oldest := max(0, slices.IndexFunc(all.open, (*conn).isWaiting))
		_ = all.open[oldest].Conn.Close() // whoever reads from it sees the error
		all.open = slices.Delete(all.open, oldest, oldest+1)
	}
	all.open = append(all.open, c)
	if all.closed {
		_ = added.Close()
	}
	return c
}

func (all *connections) count() int {
	all.mu.Lock()
	defer all.mu.Unlock()
	return len(all.open)
}

func (c *conn) isWaiting() bool { return c.arrived.Load() == 0 && !c.held.Load() }

// endCall is called before HTTP/2 writes the end of a reply.
func (c *conn) endCall() {
	select {
	case <-c.wrote:
	default:
	}
	c.used.Store(true)
}

func (c *conn) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	select {
	case c.wrote <- struct{}{}:
	default:
	}
	return n, err
}

// AfterReply calls f in a goroutine of its own when the reply to the call of a
// Mutator's context is written and the connection has no other call, or has ended.
func AfterReply(ctx context.Context, f func()) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		go f()
		return
	}
	c.conn.ends.Lock()
	defer c.conn.ends.Unlock()
	if c.conn.ended {
		go f()
		return
	}
	c.conn.replied = append(c.conn.replied, f)
}

// stateChanged is a server's ConnState. With HTTP/2 a connection is idle when the last
// of its replies is written (net/http, http2serverConn.closeStream).
func stateChanged(changed net.Conn, state http.ConnState) {
	if c, ok := changed.(*conn); ok && (state == http.StateIdle || state == http.StateClosed) {
		c.ends.Lock()
		defer c.ends.Unlock()
		c.ended = state == http.StateClosed
		for _, f := range c.replied {
			go f()
		}
		c.replied = nil
	}
}

// flushTime is how long Close waits for the end of a reply, which nobody writes when
// the client has canceled its call.
const flushTime = 50 * time.Millisecond

// Close closes the connection. http.Server.Shutdown calls it when the end of the last
// reply may still be in HTTP/2's buffer.
func (c *conn) Close() error {
	c.closing.Do(func() {
		c.all.remove(c)
		if c.used.Load() {
			select {
			case <-c.wrote:
			case <-time.After(flushTime):
			}
		}
	})
	return c.Conn.Close()
}

func (all *connections) remove(c *conn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.open = slices.DeleteFunc(all.open, func(other *conn) bool { return other == c })
}

// close closes the connections without a call, for which http.Server.Shutdown would
// wait, and lets no more in.
func (all *connections) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for _, c := range all.open {
		if !c.called.Load() {
			_ = c.Conn.Close()
		}
	}
}

// listener adds the connections that it accepts.
type listener struct {
	net.Listener
	all *connections
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.all.count() >= crowd {
		time.Sleep(pace)
	}
	return l.all.add(c), nil
}
