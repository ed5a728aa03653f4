package cluster

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Kinds are resources of an API group that are listed in all namespaces.
type Kinds struct {
	Group    string
	Names    []string
	Versions []string // of which a cluster may serve none; nil for v1
}

// Listed is the list of a resource, in JSON.
type Listed struct {
	Resource string
	Data     []byte
}

// ListAll lists resources as far as the user may, and says what was not read. Rights that are
// missing are one error, with the rules that grant all of them.
func (c *Client) ListAll(
	ctx context.Context, all ...Kinds,
) (lists []Listed, unread []error) {
	var refused []Kinds
	var refusal error
	for _, resources := range all {
		missing := Kinds{Group: resources.Group}
		for _, resource := range resources.Names {
			q := Query{Group: resources.Group, Resource: resource}
			data, err := c.GetServed(ctx, q, resources.Versions...)
			switch {
			case resources.Versions != nil && apierrors.IsNotFound(err): // which serves none
			case err == nil:
				lists = append(lists, Listed{resource, data})
			case apierrors.IsForbidden(err):
				missing.Names, refusal = append(missing.Names, resource), cmp.Or(refusal, err)
			default:
				unread = append(unread, err)
			}
		}

		// What follows in the same group is part of its rule.
		last := len(refused) - 1
		switch {
		case len(missing.Names) == 0:
		case last >= 0 && refused[last].Group == missing.Group:
			refused[last].Names = append(refused[last].Names, missing.Names...)
		default:
			refused = append(refused, missing)
		}
	}

	if refusal != nil {
		unread = append(unread, refusalOf(refused, refusal))
	}

	return lists, unread
}

// refusalOf returns the error about resources that were refused: of one its own, of several the
// first, with the rules that allow all.
func refusalOf(refused []Kinds, first error) error {
	var names, rules []string
	for _, resources := range refused {
		names = append(names, resources.Names...)
		rules = append(rules, fmt.Sprintf(`{apiGroups: [%q], resources: ["%s"], verbs: ["list"]}`,
			resources.Group, strings.Join(resources.Names, `", "`)))
	}

	if len(names) == 1 {
		return first
	}

	return fmt.Errorf("%s: %s (kubectl-clusterrole.yaml of the release allows it, by the rules %s)",
		strings.Join(names, ", "), first, strings.Join(rules, ", "))
}
