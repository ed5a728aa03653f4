package speed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
)

// race calls a hook and an echo in turn, each time on a new connection as
// virt-launcher does, so that whatever slows the machine down slows down both.
type race struct {
	hook, echo *Server
	vm         VM
	rounds     int
	took       map[*Server][]time.Duration
}

// round calls both, each first in every other round.
func (r *race) round(ctx context.Context) error {
	order := []*Server{r.echo, r.hook}
	if r.rounds++; r.rounds%2 == 0 {
		slices.Reverse(order)
	}

	for _, s := range order {
		took, reply, err := s.call(ctx, r.vm)
		if err != nil {
			return err
		}

		if placed := bytes.Contains(reply, []byte("pcie-expander-bus")); placed != (s == r.hook) {
			return fmt.Errorf("%s returned a domain with expander buses: %t", s.process, placed)
		}

		r.took[s] = append(r.took[s], took)
		if err := s.rest(ctx); err != nil {
			return err
		}
	}

	return nil
}

// call makes a call on a new connection.
func (s *Server) call(ctx context.Context, vm VM) (took time.Duration, reply []byte, err error) {
	start := time.Now()
	client, err := hookstest.Connect(ctx, s.Socket)
	if err != nil {
		return 0, nil, err
	}

	reply, err = client.OnDefineDomain(ctx, hooks.V1alpha3, vm.Domain, vm.VMI)
	took = time.Since(start)
	return took, reply, errors.Join(err, client.Close())
}

// percentile returns a percentile of a server's calls.
func (r *race) percentile(s *Server, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(r.took[s]))
	return sorted[len(sorted)*percent/100]
}
