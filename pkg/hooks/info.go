package hooks

import (
	"context"
	"slices"

	"hook-sidecar/pkg/hooks/api/info"
)

// hookName is the name of this hook in Info.
const hookName = "hook-sidecar"

// The hook points that this hook requests (KubeVirt pkg/hooks/info/info.go). It
// does not request PreCloudInitIso.
const (
	onDefineDomain = "OnDefineDomain"
	shutdown       = "Shutdown"
)

type infoService struct {
	info.UnimplementedInfoServer
	server *Server
}

// Info announces Shutdown only with v1alpha3, the first version that has it.
// virt-launcher logs an error for a hook point that a version lacks.
func (i infoService) Info(ctx context.Context, _ *info.InfoParams) (*info.InfoResult, error) {
	i.server.watchLauncher(ctx)
	if expected := i.server.config.Expected; expected != nil {
		i.server.introduced.Do(func() { AfterReply(ctx, expected) })
	}
	versions := i.server.config.Versions
	points := []*info.HookPoint{{Name: onDefineDomain}}
	if slices.Contains(versions, V1alpha3) {
		points = append(points, &info.HookPoint{Name: shutdown})
	}
	return &info.InfoResult{Name: hookName, HookPoints: points, Versions: versions}, nil
}
