package cluster

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Listed is the list of a resource, in JSON.
type Listed struct {
	Resource string
	Data     []byte
}

// ListAll lists resources as far as the user may, and says what was not read. Rights that are
// missing are one error, with the rules that grant all of them.
func (c *Client) ListAll(
	ctx context.Context, all ...Resource,
) (lists []Listed, unread []error) {
	var refused []Query
	var refusal error
	for _, r := range all {
		data, err := c.GetServed(ctx, r.Query, r.Versions...)
		switch {
		case r.Versions != nil && apierrors.IsNotFound(err): // which serves none
		case err == nil:
			lists = append(lists, Listed{r.Resource, data})
		case apierrors.IsForbidden(err):
			refused, refusal = append(refused, r.Query), cmp.Or(refusal, err)
		default:
			unread = append(unread, err)
		}
	}

	if refusal != nil {
		unread = append(unread, refusalOf(refused, refusal))
	}

	return lists, unread
}

// refusalOf returns the error about resources that were refused: of one its own, of several the
// first, with the rules that allow all. What follows in the same group is in one rule.
func refusalOf(refused []Query, first error) error {
	if len(refused) == 1 {
		return first
	}

	var names, rules []string
	for at := 0; at < len(refused); {
		group, inGroup := refused[at].Group, []string(nil)
		for ; at < len(refused) && refused[at].Group == group; at++ {
			inGroup = append(inGroup, refused[at].Resource)
		}

		names = append(names, inGroup...)
		rules = append(rules, fmt.Sprintf(`{apiGroups: [%q], resources: ["%s"], verbs: ["list"]}`,
			group, strings.Join(inGroup, `", "`)))
	}

	return fmt.Errorf("%s: %s (kubectl-clusterrole.yaml of the release allows it, by the rules %s)",
		strings.Join(names, ", "), first, strings.Join(rules, ", "))
}
