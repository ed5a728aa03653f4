package hooks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/plugin"
	"hook-sidecar/pkg/hooks/api/v1alpha1"
	"hook-sidecar/pkg/hooks/api/v1alpha2"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

// How long virt-launcher waits (KubeVirt v1.9.0, pkg/util/net/grpc,
// pkg/hooks/manager.go and virtwrap/plugins/sidecar.go).
const (
	dialTimeout   = 2 * time.Second
	infoTimeout   = time.Second
	hookTimeout   = time.Minute
	pluginTimeout = 30 * time.Second
)

// Client calls a hook as virt-launcher does: with its deadlines, its limit of
// 4 MiB for a reply and its choice of version. It is safe for use by several
// goroutines.
type Client struct {
	socket string
	conn   *grpc.ClientConn
}

// Info is what a hook says about itself.
type Info struct {
	Name       string
	HookPoints []string // in the hook's order
	Versions   []string // in the hook's order
}

// Version returns the version that virt-launcher would use: the newest that
// both know. The error names those on offer.
func (i Info) Version() (string, error) {
	for _, known := range Versions() {
		for _, offered := range i.Versions {
			if offered == known {
				return known, nil
			}
		}
	}
	return "", fmt.Errorf("no common version: the hook offers %q, virt-launcher knows %q", i.Versions, Versions())
}

// Dial connects to the socket of a hook and waits until the connection stands,
// for two seconds at most. The error says why it does not.
func Dial(ctx context.Context, socket string) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()

	// gRPC reports that a connection failed and not why, so the cause is kept.
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
		if kept := cause.Load(); kept != nil {
			err = *kept
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

// Info asks what the hook can do, within one second.
func (c *Client) Info(ctx context.Context) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	result, err := info.NewInfoClient(c.conn).Info(ctx, &info.InfoParams{})
	if err != nil {
		return Info{}, c.failed("Info", err)
	}
	said := Info{Name: result.GetName(), Versions: result.GetVersions()}
	for _, point := range result.GetHookPoints() {
		said.HookPoints = append(said.HookPoints, point.GetName())
	}
	return said, nil
}

// OnDefineDomain sends a domain and its VMI with the version that
// Info.Version gives, and returns the hook's domain, within one minute. The
// error is a MalformedError or a RefusedError where the hook says so.
func (c *Client) OnDefineDomain(ctx context.Context, version string, domain, vmi []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	var result interface{ GetDomainXML() []byte }
	var err error
	switch version {
	case V1alpha1:
		result, err = v1alpha1.NewCallbacksClient(c.conn).OnDefineDomain(ctx, &v1alpha1.OnDefineDomainParams{DomainXML: domain, Vmi: vmi})
	case V1alpha2:
		result, err = v1alpha2.NewCallbacksClient(c.conn).OnDefineDomain(ctx, &v1alpha2.OnDefineDomainParams{DomainXML: domain, Vmi: vmi})
	case V1alpha3:
		result, err = v1alpha3.NewCallbacksClient(c.conn).OnDefineDomain(ctx, &v1alpha3.OnDefineDomainParams{DomainXML: domain, Vmi: vmi})
	default:
		return nil, fmt.Errorf("call OnDefineDomain: unknown version %q", version)
	}
	if err != nil {
		return nil, c.failed("OnDefineDomain", err)
	}
	return result.GetDomainXML(), nil
}

// MutateDomain sends a libvirt domain and its VMI as a structured plugin gets
// them, in the context Boot, MigrationTarget or MigrationSource, and returns
// the hook's domain, within 30 seconds. Errors are those of OnDefineDomain.
func (c *Client) MutateDomain(ctx context.Context, invocation string, domain, vmi []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pluginTimeout)
	defer cancel()
	result, err := plugin.NewDomainHookServiceClient(c.conn).MutateDomain(ctx, &plugin.MutateDomainRequest{
		DomainType:     libvirtDomain,
		Domain:         domain,
		Vmi:            vmi,
		SidecarContext: &plugin.SidecarContext{InvocationContext: invocation},
	})
	if err != nil {
		return nil, c.failed("MutateDomain", err)
	}
	return result.GetDomain(), nil
}

// Shutdown tells the hook that the guest is gone. Only v1alpha3 has it.
func (c *Client) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	_, err := v1alpha3.NewCallbacksClient(c.conn).Shutdown(ctx, &v1alpha3.ShutdownParams{})
	if err != nil {
		return c.failed("Shutdown", err)
	}
	return nil
}

// failed is the reverse of statusOf.
func (c *Client) failed(method string, err error) error {
	err = fmt.Errorf("call %s on %s: %w", method, c.socket, err)
	switch status.Code(err) {
	case codes.InvalidArgument:
		return &MalformedError{err}
	case codes.FailedPrecondition:
		return &RefusedError{err}
	default:
		return err
	}
}
