package placement

import (
	"fmt"

	"hook-sidecar/pkg/reasons"
)

// violation is a rule that a domain violates, or a budget that it exceeds.
type violation struct {
	code reasons.Code // CodeBrokenRule or CodeBudget
	text string
}

func violated(format string, args ...any) violation {
	return violation{reasons.CodeBrokenRule, fmt.Sprintf(format, args...)}
}

func exceeded(format string, args ...any) violation {
	return violation{reasons.CodeBudget, fmt.Sprintf(format, args...)}
}
