package hooks

import (
	"context"

	"hook-sidecar/pkg/hooks/api/v1alpha2"
)

type callbacksV1alpha2 struct {
	v1alpha2.UnimplementedCallbacksServer
	server *Server
}

func (c callbacksV1alpha2) OnDefineDomain(ctx context.Context, p *v1alpha2.OnDefineDomainParams) (*v1alpha2.OnDefineDomainResult, error) {
	domain, err := c.server.answer(ctx, Call{Protocol: V1alpha2, Domain: p.GetDomainXML(), VMI: p.GetVmi()})
	if err != nil {
		return nil, err
	}
	return &v1alpha2.OnDefineDomainResult{DomainXML: domain}, nil
}

// PreCloudInitIso changes CloudInitData only: virt-launcher reads the older
// CloudInitNoCloudSource where the other one is not valid.
func (c callbacksV1alpha2) PreCloudInitIso(_ context.Context, p *v1alpha2.PreCloudInitIsoParams) (*v1alpha2.PreCloudInitIsoResult, error) {
	return &v1alpha2.PreCloudInitIsoResult{
		CloudInitNoCloudSource: p.GetCloudInitNoCloudSource(),
		CloudInitData:          c.server.cloudInit(CloudInitCall{Protocol: V1alpha2, Data: p.GetCloudInitData(), VMI: p.GetVmi()}, len(p.GetCloudInitNoCloudSource())),
	}, nil
}
