package hooks

import (
	"context"

	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

type callbacksV1alpha3 struct {
	v1alpha3.UnimplementedCallbacksServer
	server *Server
}

func (c callbacksV1alpha3) OnDefineDomain(ctx context.Context, p *v1alpha3.OnDefineDomainParams) (*v1alpha3.OnDefineDomainResult, error) {
	domain, err := c.server.answer(ctx, Call{Protocol: V1alpha3, Domain: p.GetDomainXML(), VMI: p.GetVmi()})
	if err != nil {
		return nil, err
	}
	return &v1alpha3.OnDefineDomainResult{DomainXML: domain}, nil
}

// PreCloudInitIso changes CloudInitData only: virt-launcher reads the older
// CloudInitNoCloudSource where the other one is not valid.
func (c callbacksV1alpha3) PreCloudInitIso(_ context.Context, p *v1alpha3.PreCloudInitIsoParams) (*v1alpha3.PreCloudInitIsoResult, error) {
	return &v1alpha3.PreCloudInitIsoResult{
		CloudInitNoCloudSource: p.GetCloudInitNoCloudSource(),
		CloudInitData:          c.server.cloudInit(CloudInitCall{Protocol: V1alpha3, Data: p.GetCloudInitData(), VMI: p.GetVmi()}, len(p.GetCloudInitNoCloudSource())),
	}, nil
}

// Shutdown ends the server after this reply.
func (c callbacksV1alpha3) Shutdown(context.Context, *v1alpha3.ShutdownParams) (*v1alpha3.ShutdownResult, error) {
	c.server.config.Logger.Info("virt-launcher requested shutdown")
	c.server.shutdown()
	return &v1alpha3.ShutdownResult{}, nil
}
