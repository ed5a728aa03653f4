package hooks

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// maxConnections is the number of connections that a server keeps open on all its sockets;
// virt-launcher has one at a time. gRPC reads and decodes a request of up to MaxMessage before its
// call can wait for its turn, so this bounds the memory of requests. With eight large ones at once a
// process ends that has a sidecar's memory, with four one that has little CPU time, too; with three
// it takes 47 MiB (TestManyClients in test/sidecar). One too many is refused: in a queue it would
// wait longer for Info than the one second that virt-launcher allows (KubeVirt
// pkg/hooks/manager.go).
const maxConnections = 3

// Accept closes the connections that exceed the limit.
func (s *socket) Accept() (net.Conn, error) {
	for {
		accepted, err := s.UnixListener.Accept()
		if err != nil {
			return nil, err
		}
		if s.open.Add(1) <= maxConnections {
			return &connection{Conn: accepted, socket: s}, nil
		}

		s.open.Add(-1)
		_ = accepted.Close()
	}
}

// connection is an open connection, and the AuthInfo of its calls.
type connection struct {
	net.Conn
	socket  *socket
	bounded atomic.Bool // gRPC has set a deadline, as it does until the client speaks HTTP/2
	closing sync.Once
}

// Read fails after a silence that pings would have broken. gRPC pings no more once it has told an
// idle client to go away (internal/transport/http2_server.go, keepalive), and would wait for ever
// for a call that the client has begun by then.
func (c *connection) Read(data []byte) (int, error) {
	if !c.bounded.Load() {
		if err := c.Conn.SetReadDeadline(time.Now().Add(c.socket.silence)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(data)
}

// SetDeadline sets a deadline that holds until it is taken away.
func (c *connection) SetDeadline(at time.Time) error {
	c.bounded.Store(!at.IsZero())
	return c.Conn.SetDeadline(at)
}

// Close closes the connection. gRPC may call it more than once.
func (c *connection) Close() error {
	c.closing.Do(func() { c.socket.open.Add(-1) })
	return c.Conn.Close()
}

// AuthType makes a connection a credentials.AuthInfo.
func (*connection) AuthType() string { return "unix" }

// connectionCredentials pass the connection to the handlers of its calls: gRPC has no other way to
// do it. They authenticate nobody.
type connectionCredentials struct {
	credentials.TransportCredentials
}

func (connectionCredentials) ServerHandshake(
	conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return conn, conn.(*connection), nil
}

// connectionOf returns the connection of a call. It is nil if ctx does not come from a handler.
func connectionOf(ctx context.Context) *connection {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}

	c, _ := caller.AuthInfo.(*connection)
	return c
}
