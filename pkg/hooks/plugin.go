package hooks

import (
	"context"
	"fmt"

	"hook-sidecar/pkg/hooks/api/plugin"
)

// The contexts in which MutateDomain is called (KubeVirt v1.9.0,
// kubevirt.io/api/plugin/v1alpha1). MigrationSource is defined there and
// never sent.
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

// MutateDomain mutates in Boot and where no context is named. In any other
// context the domain runs already somewhere, so it goes back as it came.
func (p pluginService) MutateDomain(ctx context.Context, r *plugin.MutateDomainRequest) (*plugin.MutateDomainResponse, error) {
	if kind := r.GetDomainType(); kind != libvirtDomain {
		return nil, statusOf(&MalformedError{fmt.Errorf("domain_type %.40q is not %q", kind, libvirtDomain)})
	}
	call := Call{Protocol: Plugin, Domain: r.GetDomain(), VMI: r.GetVmi()}
	switch invocation := r.GetSidecarContext().GetInvocationContext(); invocation {
	case "", Boot:
	case MigrationTarget, MigrationSource:
		call.Migration = true
	default:
		p.server.config.Logger.Warn("unknown invocation context, the domain is not changed", "context", invocation)
		call.Migration = true
	}
	domain, err := p.server.answer(ctx, call)
	if err != nil {
		return nil, err
	}
	return &plugin.MutateDomainResponse{Domain: domain}, nil
}
