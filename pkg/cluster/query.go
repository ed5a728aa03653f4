package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
)

// Query names an object or, without a name, those of a namespace, "" for all; with a Part it
// names that of the object, such as its log.
type Query struct {
	Group, Version, Resource, Namespace, Name, Part string // Version "" is v1

	Parameters map[string]string
}

// path returns where the API server has it.
func (q Query) path() string {
	to, namespace := "/api", q.Namespace
	if q.Group != "" {
		to = path.Join("/apis", q.Group)
	}
	if namespace != "" {
		namespace = path.Join("namespaces", namespace)
	}
	return path.Join(to, cmp.Or(q.Version, "v1"), namespace, q.Resource, q.Name, q.Part)
}

// right returns the permission that the query needs.
func (q Query) right() right {
	verb := "get"
	if q.Name == "" {
		verb = "list"
	}
	return right{verb, q.Group, path.Join(q.Resource, q.Part), q.Namespace}
}

// Get returns what is queried, objects as JSON.
func (c *Client) Get(ctx context.Context, q Query) ([]byte, error) {
	return c.query(ctx, "read "+path.Join(q.Resource, q.Part, q.Name), q)
}

// query returns what is queried. An error says what was being done.
func (c *Client) query(ctx context.Context, doing string, q Query) ([]byte, error) {
	request := c.rest.Get().AbsPath(q.path())
	for name, value := range q.Parameters {
		request = request.Param(name, value)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, q.right().wrap(doing, err)
	}
	return result.Raw()
}

// decode decodes what is queried.
func (c *Client) decode(ctx context.Context, doing string, q Query, into any) error {
	data, err := c.query(ctx, doing, q)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
