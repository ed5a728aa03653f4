package hooks

import (
	"context"
	"fmt"

	"hook-sidecar/pkg/hooks/api/plugin"
)

// The contexts in which KubeVirt calls MutateDomain (v1.9.0,
// kubevirt.io/api/plugin/v1alpha1). It defines MigrationSource but never sends it.
const (
	Boot            = "Boot"
	MigrationTarget = "MigrationTarget"
	MigrationSource = "MigrationSource"
)

// libvirtDomain is the only domain_type that KubeVirt has.
const libvirtDomain = "libvirt"

type pluginService struct {
	plugin.UnimplementedDomainHookServiceServer
	server *Server
}

// MutateDomain changes the domain in context Boot or without a context. In any
// other context the domain is already running elsewhere, so it stays unchanged.
func (p pluginService) MutateDomain(ctx context.Context, r *plugin.MutateDomainRequest) (*plugin.MutateDomainResponse, error) {
	if kind := r.GetDomainType(); kind != libvirtDomain {
		return nil, statusOf(&MalformedError{fmt.Errorf("invalid domain_type %.40q: must be %s", kind, libvirtDomain)})
	}
	call := Call{Protocol: Plugin, Domain: r.GetDomain(), VMI: r.GetVmi()}
	switch invocation := r.GetSidecarContext().GetInvocationContext(); invocation {
	case "", Boot:
	case MigrationTarget, MigrationSource:
		call.Migration = true
	default:
		p.server.config.Logger.Warn("unknown invocation context, returning the input", "context", invocation)
		call.Migration = true
	}
	domain, err := p.server.answer(ctx, call)
	if err != nil {
		return nil, err
	}
	return &plugin.MutateDomainResponse{Domain: domain}, nil
}
