package placement

import (
	"testing"

	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/reasons"
)

// TestFit: as many ports are reserved as there is room for, down to exactly the least; where there
// is no room for these, it is said what does not fit.
func TestFit(t *testing.T) {
	const most, least = 10, 3
	for room := range most + 2 {
		ports, violations := fit(bus.Ports{KubeVirt: 4, Hook: most}, least,
			func(p bus.Ports) []reasons.Finding {
				if p.Hook < least || p.KubeVirt != 4 {
					t.Errorf("room for %d: %+v is tried", room, p)
				}
				if p.Hook > room {
					return []reasons.Finding{bus.Exceeded("%d ports", p.Hook)}
				}
				return nil
			})

		want := min(room, most)
		if room < least {
			want = most
		}
		if ports.Hook != want || (len(violations) > 0) != (room < least) {
			t.Errorf("room for %d: %d ports, %v, want %d", room, ports.Hook, violations, want)
		}
	}
}
