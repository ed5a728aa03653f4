package cluster

import (
	"context"
	"path"
)

// Query names an object or, without a name, those of a namespace, "" for all; with a Part it
// names that of the object, such as its log.
type Query struct {
	Group, Resource, Namespace, Name, Part string
	Parameters                             map[string]string
}

// Get returns what is queried, objects as JSON. It is of version v1.
func (c *Client) Get(ctx context.Context, q Query) ([]byte, error) {
	to, namespace := "/api", q.Namespace
	if q.Group != "" {
		to = path.Join("/apis", q.Group)
	}
	if namespace != "" {
		namespace = path.Join("namespaces", namespace)
	}
	verb := "get"
	if q.Name == "" {
		verb = "list"
	}
	data, err := c.get(ctx, path.Join(to, "v1", namespace, q.Resource, q.Name, q.Part), q.Parameters)
	if err != nil {
		what := path.Join(q.Resource, q.Part)
		err = right{verb, q.Group, what, q.Namespace}.wrap("read "+path.Join(what, q.Name), err)
	}
	return data, err
}
