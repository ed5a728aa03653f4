package hooks

import (
	"context"

	"hook-sidecar/pkg/hooks/api/v1alpha1"
)

type callbacksV1alpha1 struct {
	v1alpha1.UnimplementedCallbacksServer
	server *Server
}

func (c callbacksV1alpha1) OnDefineDomain(ctx context.Context, p *v1alpha1.OnDefineDomainParams) (*v1alpha1.OnDefineDomainResult, error) {
	domain, err := c.server.answer(ctx, Call{Protocol: V1alpha1, Domain: p.GetDomainXML(), VMI: p.GetVmi()})
	if err != nil {
		return nil, err
	}
	return &v1alpha1.OnDefineDomainResult{DomainXML: domain}, nil
}
