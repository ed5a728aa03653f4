// Command echo serves a hook as anyone would write it first: it returns each domain as it
// came, on the socket that is its argument.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"

	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

type echo struct {
	v1alpha3.UnimplementedCallbacksServer
}

func (echo) OnDefineDomain(
	_ context.Context, params *v1alpha3.OnDefineDomainParams,
) (*v1alpha3.OnDefineDomainResult, error) {
	return &v1alpha3.OnDefineDomainResult{DomainXML: params.GetDomainXML()}, nil
}

func serve(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}

	server := grpc.NewServer()
	v1alpha3.RegisterCallbacksServer(server, echo{})
	return server.Serve(listener)
}

func main() {
	fmt.Fprintln(os.Stderr, serve(os.Args[1]))
	os.Exit(1)
}
