package cluster

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/kubevirt"
)

// defaultNamespace is where KubeVirt is, unless its object says otherwise.
const defaultNamespace = "kubevirt"

// Installation reads what the cluster has of KubeVirt and of manifests/plugin. It fails only if
// KubeVirt's own object cannot be read. Errors of other parts are in Unread.
func (c *Client) Installation(ctx context.Context) (kubevirt.Installation, error) {
	var kubevirts v1.KubeVirtList
	var in kubevirt.Installation
	if err := c.decode(ctx, "read kubevirts", Query{
		Group: kubeVirt, Resource: "kubevirts",
	}, &kubevirts); err != nil {
		return in, err
	}

	namespace := defaultNamespace
	for _, k := range kubevirts.Items { // KubeVirt's operator accepts one
		namespace, in.Version = k.Namespace, k.Status.ObservedKubeVirtVersion
		if developer := k.Spec.Configuration.DeveloperConfiguration; developer != nil {
			in.Gates = developer.FeatureGates
		}
	}

	c.plugins(ctx, &in)
	c.policies(ctx, &in, namespace)
	return in, nil
}

// plugins reads the Plugin objects.
func (c *Client) plugins(ctx context.Context, in *kubevirt.Installation) {
	var err error
	if in.Plugins, err = c.Plugins(ctx); err != nil {
		in.Unread = append(in.Unread, err)
	}
}

// Plugins returns the cluster's Plugin objects, none before KubeVirt 1.9.
func (c *Client) Plugins(ctx context.Context) ([]kubevirt.Plugin, error) {
	var plugins struct {
		Items []kubevirt.Plugin `json:"items"`
	}

	err := c.decode(ctx, "read plugins", Query{
		Group: "plugin.kubevirt.io", Version: "v1alpha1", Resource: "plugins",
	}, &plugins)
	if isUnknownPath(err) {
		err = nil
	}

	return plugins.Items, err
}

// policies reads the admission policies of manifests/plugin, their bindings and the ConfigMap that
// a binding names.
func (c *Client) policies(ctx context.Context, in *kubevirt.Installation, namespace string) {
	var binding struct {
		Spec struct {
			ParamRef struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
			} `json:"paramRef"`
		} `json:"spec"`
	}

	missing := func(err error, name string) {
		switch {
		case apierrors.IsNotFound(err):
			in.Missing = append(in.Missing, name)
		case err != nil:
			in.Unread = append(in.Unread, err)
		}
	}

	const injector, required = "hook-sidecar-injector", "hook-sidecar-required"
	for _, object := range []struct {
		resource, name string
		into           any
	}{
		{"mutatingadmissionpolicies", injector, &struct{}{}},
		{"mutatingadmissionpolicybindings", injector, &binding},
		{"validatingadmissionpolicies", required, &struct{}{}},
		{"validatingadmissionpolicybindings", required, &struct{}{}},
	} {
		q := Query{
			Group: "admissionregistration.k8s.io", Resource: object.resource, Name: object.name,
		}

		err := c.decode(ctx, "read "+object.resource, q, object.into)
		if isUnknownPath(err) { // Kubernetes before 1.36
			q.Version = "v1beta1"
			err = c.decode(ctx, "read "+object.resource, q, object.into)
		}

		missing(err, object.resource+"/"+object.name)
	}

	name, namespace := cmp.Or(binding.Spec.ParamRef.Name,
		"hook-sidecar"), cmp.Or(binding.Spec.ParamRef.Namespace, namespace)
	var settings corev1.ConfigMap
	err := c.decode(ctx, "read configmaps", Query{
		Resource: "configmaps", Namespace: namespace, Name: name,
	}, &settings)

	missing(err, fmt.Sprintf("configmaps/%s in namespace %s", name, namespace))
	in.Settings = settings.Data
}

// Answer is what a query was answered.
type Answer struct {
	Query
	Data []byte
	Err  error
}

// InstallationObjects returns the answers to all queries of Installation, also if one fails.
func (c *Client) InstallationObjects(ctx context.Context) []Answer {
	r := &recorder{source: c.source}
	recorded := &Client{source: r}
	if in, err := recorded.Installation(ctx); err != nil {
		recorded.plugins(ctx, &in)
		recorded.policies(ctx, &in, defaultNamespace)
	}

	return r.answers
}

// recorder is a source that keeps the answers.
type recorder struct {
	source
	answers []Answer
}

func (r *recorder) query(ctx context.Context, doing string, q Query) ([]byte, error) {
	data, err := r.source.query(ctx, doing, q)
	r.answers = append(r.answers, Answer{q, data, err})
	return data, err
}
