package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster/redact"
)

// Client reads VMs of a cluster.
type Client struct {
	source

	others sync.Map // images of sidecars that are not this hook: no VM after the first is asked
}

// source is a cluster, or files that were collected from one.
type source interface {
	// query returns what is queried, or made of it. An error says what was being done.
	query(ctx context.Context, doing string, q Query) ([]byte, error)

	// exec runs a command in a container of a pod and returns its standard output.
	exec(ctx context.Context, pod *corev1.Pod, cmd command) ([]byte, error)
}

// server is the API server.
type server struct {
	config *rest.Config
	rest   *rest.RESTClient
}

// New returns a client of the API server that the configuration names.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"

	// Answers stay bytes. Only a refusal is decoded, a Status.
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()

	// as kubectl; client-go's default of 5 per second is for controllers
	config.QPS, config.Burst = 50, 100
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}

	return &Client{source: &server{config: config, rest: client}}, nil
}

// withoutServer returns an error of a connection that is refused, with what to do.
func withoutServer(err error) error {
	return reasons.WithHint("name the cluster with --context or --kubeconfig, as for kubectl", err)
}

// right is a permission that the user needs, in the terms of RBAC.
// manifests/kubectl/clusterrole.yaml grants each.
type right struct{ verb, group, resource, namespace string }

// wrap wraps the error of a request that takes the right. Where the user lacks it, the
// remedy names the rule that grants it.
func (r right) wrap(doing string, err error) error {
	err = fmt.Errorf("%s: %w", doing, safeError{err})

	// A refusal by RBAC names the verb (k8s.io/apiserver
	// pkg/endpoints/handlers/responsewriters/errors.go, forbiddenMessage).
	names := func(verb string) bool { return strings.Contains(err.Error(), "cannot "+verb) }
	switch {
	case utilnet.IsConnectionRefused(err):
		return withoutServer(err)
	case r.group == kubeVirt && isUnknownPath(err):
		return reasons.WithHint("name another cluster with --context",
			fmt.Errorf("%s: the cluster has no KubeVirt: /apis/kubevirt.io/v1 is not served",
				doing))

	case !apierrors.IsForbidden(err):
		return err
	case names("impersonate"):
		return reasons.WithHint("you may not impersonate the user or group of --as and "+
			"--as-group: leave them out, or ask for the verb impersonate", err)

	case !names(r.verb): // admission refused it
		return reasons.WithHint("the cluster's policy refuses it, whatever the user's rights", err)
	}

	where := "in all namespaces"
	if r.namespace != "" {
		where = "in namespace " + r.namespace
	}

	return reasons.WithHint(fmt.Sprintf("you may not %s %s %s; kubectl-clusterrole.yaml of the "+
		"release allows it, by the rule {apiGroups: [%q], resources: [%q], verbs: [%q]}",
		r.verb, r.resource, where, r.group, r.resource, r.verb), err)
}

// safeError is the error of a request, without secrets: what refuses a request may quote it.
type safeError struct{ error }

func (e safeError) Error() string { return redact.Text(e.error.Error()) }

func (e safeError) Unwrap() error { return e.error }

// IsUnreachable reports whether the API server did not answer at all.
func IsUnreachable(err error) bool {
	_, isUnreachable := errors.AsType[*url.Error](err)
	return isUnreachable
}

// isUnknownPath reports whether the API server does not serve a path: its error then names
// no object.
func isUnknownPath(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		(status.Status().Details == nil || status.Status().Details.Name == "")
}

// Query names an object, or without a name all objects of a namespace; namespace "" is all
// namespaces. Part names a part of the object, such as its log.
type Query struct {
	Group, Version, Resource, Namespace, Name, Part string // Version "" is v1

	Parameters map[string]string

	Verb string      // create or delete; "" reads
	Body *corev1.Pod // to create
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
	verb := cmp.Or(q.Verb, "get")
	if verb == "get" && q.Name == "" {
		verb = "list"
	}
	return right{verb, q.Group, path.Join(q.Resource, q.Part), q.Namespace}
}

// Get returns what is queried, objects as JSON.
func (c *Client) Get(ctx context.Context, q Query) ([]byte, error) {
	return c.query(ctx, "read "+path.Join(q.Resource, q.Part, q.Name), q)
}

// GetServed returns what is queried, by the first of these versions that the cluster serves;
// without any as Get. Where it serves none the error is apierrors.IsNotFound.
func (c *Client) GetServed(
	ctx context.Context, q Query, versions ...string,
) (data []byte, err error) {
	if len(versions) == 0 {
		return c.Get(ctx, q)
	}

	for _, q.Version = range versions {
		if data, err = c.Get(ctx, q); !isUnknownPath(err) {
			break
		}
	}
	return data, err
}

func (s *server) query(ctx context.Context, doing string, q Query) ([]byte, error) {
	method := map[string]string{"create": http.MethodPost, "delete": http.MethodDelete}[q.Verb]
	request := s.rest.Verb(cmp.Or(method, http.MethodGet)).AbsPath(q.path()).Body(q.Body)
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

// Version returns the version of the API server; "" of files.
func (c *Client) Version(ctx context.Context) (string, error) {
	s, isServer := c.source.(*server)
	if !isServer {
		return "", nil
	}

	var info version.Info
	data, err := s.rest.Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(data, &info)
	}

	if err != nil {
		err = fmt.Errorf("read the API server's version: %w", err)
		if utilnet.IsConnectionRefused(err) {
			err = withoutServer(err)
		}
		return "", err
	}

	return info.GitVersion, nil
}
