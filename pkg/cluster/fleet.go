package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Fleet passes each object that decides where a VM fits to add, in lists as the API server
// returns them. It returns what it did not read: what the user may not list, and what the
// cluster does not have.
func (c *Client) Fleet(ctx context.Context, add func(list []byte) error) (unread []string, err error) {
	for _, of := range []struct{ path, resource string }{
		{"/api/v1/", "nodes"},
		{"/api/v1/", "pods"},
		{"/apis/resource.k8s.io/v1/", "resourceslices"},
		{"/apis/resource.k8s.io/v1/", "deviceclasses"},
		{"/apis/resource.k8s.io/v1/", "resourceclaims"},
		{"/apis/resource.k8s.io/v1/", "resourceclaimtemplates"},
	} {
		for next := ""; ; {
			list, err := c.get(ctx, of.path+of.resource, map[string]string{"limit": pageSize, "continue": next})
			if err != nil {
				group, _, _ := strings.Cut(strings.TrimPrefix(of.path, "/apis/"), "/")
				if of.path == "/api/v1/" {
					group = ""
				}
				err = right{"list", group, of.resource, ""}.wrap("list "+of.resource, err)
				if ctx.Err() != nil {
					return nil, err
				}
				unread = append(unread, err.Error())
				break
			}
			var page struct {
				Metadata struct {
					Continue string `json:"continue"`
				} `json:"metadata"`
			}
			if err := json.Unmarshal(list, &page); err != nil {
				return nil, fmt.Errorf("list %s: %w", of.resource, err)
			}
			if err := add(list); err != nil {
				return nil, err
			}
			if next = page.Metadata.Continue; next == "" {
				break
			}
		}
	}
	return unread, nil
}
