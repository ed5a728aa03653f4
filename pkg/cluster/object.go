package cluster

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// Query names an object or, without a name, those of a namespace, "" for all.
type Query struct{ Group, Resource, Namespace, Name string }

// Of returns the query for another resource.
func (q Query) Of(resource string) Query {
	q.Resource = resource
	return q
}

// path returns the path of what is queried, whose version is v1.
func (q Query) path() string {
	to := "/api/v1"
	if q.Group != "" {
		to = "/apis/" + q.Group + "/v1"
	}
	if q.Namespace != "" {
		to = path.Join(to, "namespaces", q.Namespace)
	}
	return path.Join(to, q.Resource, q.Name)
}

// Get returns what is queried as JSON.
func (c *Client) Get(ctx context.Context, q Query) ([]byte, error) {
	verb := "get"
	if q.Name == "" {
		verb = "list"
	}
	data, err := c.get(ctx, q.path(), nil)
	if err != nil {
		err = right{verb, q.Group, q.Resource, q.Namespace}.wrap(strings.TrimSpace("read "+q.Resource+" "+q.Name), err)
	}
	return data, err
}

// Log returns the end of a container's log, or of that before its restart.
func (c *Client) Log(ctx context.Context, namespace, pod, container string, before bool) (string, error) {
	q := Query{Resource: "pods", Namespace: namespace, Name: pod}
	data, err := c.get(ctx, q.path()+"/log", map[string]string{
		"container": container, "previous": fmt.Sprint(before), "tailLines": "5000", "limitBytes": fmt.Sprint(8 << 20),
	})
	if err != nil {
		err = right{"get", "", "pods/log", namespace}.wrap(fmt.Sprintf("read the log of container %s of pod %s", container, pod), err)
	}
	return string(data), err
}
