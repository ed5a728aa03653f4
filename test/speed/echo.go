package speed

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

// echo is a hook as anyone would write it first: it returns the domain.
type echo struct {
	v1alpha3.UnimplementedCallbacksServer
}

func (echo) OnDefineDomain(_ context.Context, params *v1alpha3.OnDefineDomainParams) (*v1alpha3.OnDefineDomainResult, error) {
	return &v1alpha3.OnDefineDomainResult{DomainXML: params.GetDomainXML()}, nil
}

// ServeEcho serves an echo on a socket.
func ServeEcho(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	v1alpha3.RegisterCallbacksServer(server, echo{})
	return server.Serve(listener)
}
