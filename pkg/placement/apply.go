package placement

import (
	"fmt"

	"hook-sidecar/pkg/domain"
)

// Apply is the changed domain: the bytes of the domain that was planned for, with
// Changes. It is nil for a plan that changes nothing. The result is read again
// and compared with the plan; an error is a fault of this program, not of the
// input.
func (p *Plan) Apply() ([]byte, error) {
	if p.Changes.IsZero() {
		return nil, nil
	}
	changed, err := p.input.Apply(p.Changes)
	if err != nil {
		return nil, fmt.Errorf("apply the plan: %w", err)
	}
	again, err := domain.Parse(changed)
	if err != nil {
		return nil, fmt.Errorf("parse the result: %w", err)
	}
	if err := again.Verify(p.result); err != nil {
		return nil, fmt.Errorf("verify the result: %w", err)
	}
	return changed, nil
}
