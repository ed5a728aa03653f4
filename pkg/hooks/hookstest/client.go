package hookstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/plugin"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

// How long virt-launcher waits (KubeVirt v1.9.0, pkg/util/net/grpc,
// pkg/hooks/manager.go and virtwrap/plugins/sidecar.go). 1.10 waits five seconds for a
// plugin's connection.
const (
	dialTimeout   = 2 * time.Second
	infoTimeout   = time.Second
	hookTimeout   = time.Minute
	pluginTimeout = 30 * time.Second
)

// Client calls a hook as virt-launcher does: with its deadlines, its limit of
// 4 MiB per reply and its choice of version. It is safe for concurrent use.
type Client struct {
	socket string
	conn   *grpc.ClientConn
}

// Info is a hook's description of itself.
type Info struct {
	Name       string
	HookPoints []string // in the hook's order
	Versions   []string // in the hook's order
}

// Version returns the version that virt-launcher would use: the newest that
// both support.
func (i Info) Version() (string, error) {
	for _, version := range hooks.Versions() {
		if slices.Contains(i.Versions, version) {
			return version, nil
		}
	}
	return "", fmt.Errorf("no common version: the hook supports %q, virt-launcher %q", i.Versions,
		hooks.Versions())
}

// Connect connects to the socket of a hook. It waits at most two seconds for the
// connection, and its error has the cause.
func Connect(ctx context.Context, socket string) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()

	// gRPC reports that a connection failed but not why.
	var cause atomic.Pointer[error]
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			cause.Store(&err)
		}
		return conn, err
	}

	conn, err := grpc.NewClient("passthrough:///"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(dial))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}

	if err := waitReady(ctx, conn); err != nil {
		if dialErr := cause.Load(); dialErr != nil {
			err = *dialErr
		}
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", socket, err), conn.Close())
	}

	return &Client{socket: socket, conn: conn}, nil
}

// waitReady waits for a connection's first success or failure.
func waitReady(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure:
			return errors.New("the peer closed the connection or does not speak gRPC")
		}

		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("no answer: %w", ctx.Err())
		}
	}
}

// Close ends the connection.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("close the connection to %s: %w", c.socket, err)
	}
	return nil
}

// Info returns the hook's points and versions, within one second.
func (c *Client) Info(ctx context.Context) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	result, err := info.NewInfoClient(c.conn).Info(ctx, &info.InfoParams{})
	if err != nil {
		return Info{}, c.failed("Info", err)
	}

	reported := Info{Name: result.GetName(), Versions: result.GetVersions()}
	for _, point := range result.GetHookPoints() {
		reported.HookPoints = append(reported.HookPoints, point.GetName())
	}

	return reported, nil
}

// OnDefineDomain sends a domain and its VMI and returns the hook's domain, within one
// minute. version is that of Info.Version. The error has the hook's gRPC status.
func (c *Client) OnDefineDomain(
	ctx context.Context, version string, domain, vmi []byte,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()

	// The messages are those of all versions.
	method := "/kubevirt.hooks." + version + ".Callbacks/OnDefineDomain"
	var result v1alpha3.OnDefineDomainResult
	if err := c.conn.Invoke(ctx, method, &v1alpha3.OnDefineDomainParams{
		DomainXML: domain, Vmi: vmi,
	}, &result); err != nil {
		return nil, c.failed("OnDefineDomain", err)
	}

	return result.GetDomainXML(), nil
}

// MutateDomain sends a domain and its VMI as KubeVirt does for a structured plugin, and
// returns the hook's domain, within 30 seconds. invocation is Boot, MigrationTarget or
// MigrationSource. Errors are as with OnDefineDomain.
func (c *Client) MutateDomain(
	ctx context.Context, invocation string, domain, vmi []byte,
) ([]byte, error) {
	return c.callPlugin(ctx, plugin.DomainHookService_MutateDomain_FullMethodName, invocation,
		domain, vmi)
}

// GuestDefinition calls MutateDomain by the name that it has in KubeVirt 1.10.
func (c *Client) GuestDefinition(
	ctx context.Context, invocation string, domain, vmi []byte,
) ([]byte, error) {
	return c.callPlugin(ctx, plugin.LauncherHookService_GuestDefinition_FullMethodName, invocation,
		domain, vmi)
}

// callPlugin calls a method by its full name. The messages of both have the same fields.
func (c *Client) callPlugin(
	ctx context.Context, method, invocation string, domain, vmi []byte,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pluginTimeout)
	defer cancel()
	var result plugin.MutateDomainResponse
	if err := c.conn.Invoke(ctx, method, &plugin.MutateDomainRequest{
		DomainType:     "libvirt", // the only one that KubeVirt has
		Domain:         domain,
		Vmi:            vmi,
		SidecarContext: &plugin.SidecarContext{InvocationContext: invocation},
	}, &result); err != nil {
		return nil, c.failed(path.Base(method), err)
	}

	return result.GetDomain(), nil
}

func (c *Client) failed(method string, err error) error {
	return fmt.Errorf("call %s on %s: %w", method, c.socket, err)
}
