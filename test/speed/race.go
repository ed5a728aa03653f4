package speed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hook-sidecar/pkg/hooks"
)

// Race calls a hook and an echo in turn, each time on a new connection as
// virt-launcher does, so that whatever slows the machine down slows down both.
type Race struct {
	hook, echo *Server
	vm         VM
	rounds     int
	took       map[*Server][]time.Duration
}

// warmUp is how many rounds a Race makes before those that count.
const warmUp = 5

// NewRace makes the first rounds, which do not count.
func NewRace(ctx context.Context, hook, echo *Server, vm VM) (*Race, error) {
	r := &Race{hook: hook, echo: echo, vm: vm}
	for range warmUp {
		if err := r.Round(ctx); err != nil {
			return nil, err
		}
	}
	r.took = map[*Server][]time.Duration{}
	return r, nil
}

// Round calls both, each first in every other round.
func (r *Race) Round(ctx context.Context) error {
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
		if r.took != nil {
			r.took[s] = append(r.took[s], took)
		}
		if err := s.rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// call makes a call on a new connection.
func (s *Server) call(ctx context.Context, vm VM) (took time.Duration, reply []byte, err error) {
	start := time.Now()
	client, err := hooks.Dial(ctx, s.Socket)
	if err != nil {
		return 0, nil, err
	}
	reply, err = client.OnDefineDomain(ctx, hooks.V1alpha3, vm.Domain, vm.VMI)
	took = time.Since(start)
	return took, reply, errors.Join(err, client.Close())
}

// Figures are what a Race has measured.
type Figures struct {
	HookP50, HookP99, EchoP50, EchoP99 time.Duration
}

// Ratio is how many echoes a call costs.
func (f Figures) Ratio() float64 { return float64(f.HookP50) / float64(f.EchoP50) }

// Figures are those of the rounds so far.
func (r *Race) Figures() Figures {
	hook, echo := slices.Sorted(slices.Values(r.took[r.hook])), slices.Sorted(slices.Values(r.took[r.echo]))
	return Figures{percentile(hook, 50), percentile(hook, 99), percentile(echo, 50), percentile(echo, 99)}
}

func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[len(sorted)*percent/100]
}
