package cluster

import (
	"context"
	"encoding/json"
	"fmt"
)

// Fleet passes each object that decides where a VM fits to add, in lists as the API server
// returns them. It returns what it did not read: what the user may not list, and what the
// cluster does not have.
func (c *Client) Fleet(ctx context.Context, add func(list []byte) error) (unread []string, err error) {
	for _, path := range []string{
		"/api/v1/nodes", "/api/v1/pods", api + "/kubevirts",
		"/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/deviceclasses",
		"/apis/resource.k8s.io/v1/resourceclaims", "/apis/resource.k8s.io/v1/resourceclaimtemplates",
	} {
		err := c.pages(ctx, path, add)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list %s: %w", path, err)
		}
		if err != nil && !isUnknownPath(err) { // what the cluster does not serve, it has none of
			unread = append(unread, fmt.Sprintf("list %s: %v", path, err))
		}
	}
	return unread, nil
}

// pages passes the pages of a list to add.
func (c *Client) pages(ctx context.Context, path string, add func(list []byte) error) error {
	for next := ""; ; {
		list, err := c.get(ctx, path, map[string]string{"limit": pageSize, "continue": next})
		if err != nil {
			return err
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(list, &page); err != nil {
			return err
		}
		if err := add(list); err != nil {
			return err
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
}
