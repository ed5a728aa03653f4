package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fleet passes the objects that decide where a VM fits to add, in lists as the API server
// returns them. It returns what was not read, such as what the user may not list; where that
// is all, it is the error. What the cluster does not serve, it has none of.
func (c *Client) Fleet(ctx context.Context, add func(list []byte) error) (unread []string, err error) {
	paths := []string{
		"/api/v1/nodes", "/api/v1/pods", api + "/kubevirts",
		"/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/deviceclasses",
		"/apis/resource.k8s.io/v1/resourceclaims", "/apis/resource.k8s.io/v1/resourceclaimtemplates",
	}
	for _, path := range paths {
		failed := c.pages(ctx, path, add)
		if failed == nil || isUnknownPath(failed) {
			continue
		}
		err = cmp.Or(err, right{"list", "", "nodes", ""}.wrap("list "+path, failed))
		unread = append(unread, fmt.Sprintf("list %s: %v", path, failed))
	}
	if len(unread) == len(paths) || ctx.Err() != nil {
		return nil, err
	}
	return unread, nil
}

// pageSize is the number of objects per answer, as kubectl's --chunk-size.
const pageSize = "500"

// pages passes the pages of a list to add.
func (c *Client) pages(ctx context.Context, path string, add func(list []byte) error) error {
	for next := ""; ; {
		list, err := c.get(ctx, path, map[string]string{"limit": pageSize, "continue": next})
		if err != nil {
			return err
		}
		var page metav1.PartialObjectMetadataList
		if err := json.Unmarshal(list, &page); err != nil {
			return err
		}
		if err := add(list); err != nil {
			return err
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}
