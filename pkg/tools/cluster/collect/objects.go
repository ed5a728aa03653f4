package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/cluster/provider"
	"hook-sidecar/pkg/tools/cluster/redact"
)

// object is an object as package json decodes it.
type object = map[string]any

// list is what the API server returns of several objects.
type list struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Items      []object `json:"items"`
}

// listOf returns a list of one object; an empty list if the data is not an object.
func listOf(data []byte) list {
	var one object
	if decode(data, &one) != nil {
		return list{}
	}

	kind, _ := one["kind"].(string)
	version, _ := one["apiVersion"].(string)
	return list{Kind: kind + "List", APIVersion: version, Items: []object{one}}
}

// clusterObjects reads the objects of the cluster, and the pods that use its nodes.
func (c *Collector) clusterObjects(ctx context.Context) {
	for _, r := range cluster.Resources {
		name := r.Resource
		found, err := c.list(ctx, r.Query, r.Versions...)

		// Who may not list claims in the whole cluster may often list those of the VM's
		// namespace.
		isOfNamespace := name == "resourceclaims" || name == "resourceclaimtemplates"
		if apierrors.IsForbidden(err) && isOfNamespace {
			c.gap(name, err)
			found, err = c.perNamespace(ctx, r.Query)
		}

		switch {
		case apierrors.IsNotFound(err): // the cluster does not serve it
		case err != nil:
			c.gap(name, err)
		default:
			if name == "daemonsets" {
				found.Items = ofProviders(found.Items)
			}
			c.keepObjects(name, found)
		}
	}

	c.installation(ctx)
	c.readPods(ctx)
}

// ofProviders returns of the DaemonSets of virt-handler and of what makes or offers devices on which
// nodes their pods run.
func ofProviders(items []object) (kept []object) {
	for _, item := range items {
		metadata, _ := item["metadata"].(object)
		name, _ := metadata["name"].(string)
		namespace, _ := metadata["namespace"].(string)
		if name != "virt-handler" && !provider.IsNamed(namespace+"/"+name) {
			continue
		}

		spec, _ := item["spec"].(object)
		template, _ := spec["template"].(object)
		pod, _ := template["spec"].(object)
		kept = append(kept, object{
			"apiVersion": item["apiVersion"], "kind": item["kind"],
			"metadata": only(metadata, "name", "namespace", "labels", "uid"),
			"spec": object{"template": object{
				"spec": only(pod, "nodeSelector", "affinity", "tolerations"),
			}},
			"status": item["status"],
		})
	}

	return kept
}

// list reads a list.
func (c *Collector) list(
	ctx context.Context, q cluster.Query, versions ...string,
) (list, error) {
	c.progress(strings.TrimSpace(q.Resource + " " + q.Namespace))
	data, err := c.Client.GetServed(ctx, q, versions...)
	if err != nil {
		return list{}, err
	}

	return listIn(data)
}

// listIn decodes a list. The API server's items have no kind of their own.
func listIn(data []byte) (found list, err error) {
	if err := decode(data, &found); err != nil {
		return list{}, fmt.Errorf("read a list: %w", err)
	}

	for _, item := range found.Items {
		if item["kind"] == nil {
			item["kind"] = strings.TrimSuffix(found.Kind, "List")
			item["apiVersion"] = found.APIVersion
		}
		if status, isMap := item["status"].(object); isMap && item["kind"] == "Node" {
			delete(status, "images") // which are many
		}
	}

	return found, nil
}

// perNamespace reads the lists of the VMs' namespaces, and notes which cannot be read.
func (c *Collector) perNamespace(ctx context.Context, q cluster.Query) (all list, err error) {
	for _, namespace := range c.namespaces() {
		q.Namespace = namespace
		found, err := c.list(ctx, q)
		if err != nil {
			c.gap(archive.Objects(namespace, q.Resource), err)
			continue
		}

		all.Kind, all.APIVersion = found.Kind, found.APIVersion
		all.Items = append(all.Items, found.Items...)
	}

	return all, nil
}

// namespaces returns the namespaces of the VMs.
func (c *Collector) namespaces() (all []string) {
	for _, vm := range c.vms {
		if !slices.Contains(all, vm.Namespace) {
			all = append(all, vm.Namespace)
		}
	}
	return all
}

// keepObjects adds objects of a resource to its file, without secrets.
func (c *Collector) keepObjects(resource string, found list) {
	removed := redact.Removed{}
	for _, item := range found.Items {
		removed.Add(redact.Object(item))
	}

	name := archive.ObjectsOf(resource)
	i := slices.IndexFunc(c.archive.Files, func(f archive.File) bool { return f.Name == name })
	if i >= 0 { // of the VM before
		var before list
		if decode(c.archive.Files[i].Data, &before) == nil {
			found.Items = append(before.Items, found.Items...)
		}
		c.archive.Files = slices.Delete(c.archive.Files, i, i+1)
	}

	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(found); err != nil {
		c.gap(resource, err)
		return
	}

	c.keep(name, b.Bytes(), removed)
}

// isPod reports whether a name is that of a pod of the VMs.
func (c *Collector) isPod(namespace, name string) bool {
	return slices.ContainsFunc(c.pods, func(p *corev1.Pod) bool {
		return p.Namespace == namespace && p.Name == name
	})
}

// installation reads KubeVirt's objects and this hook's.
func (c *Collector) installation(ctx context.Context) {
	c.progress("KubeVirt and the hook")
	for _, answer := range c.Client.InstallationObjects(ctx) {
		if apierrors.IsNotFound(answer.Err) {
			continue
		}

		found, err := list{}, answer.Err
		if err == nil && answer.Name == "" {
			found, err = listIn(answer.Data)
		} else if err == nil {
			found = listOf(answer.Data)
		}

		if err != nil {
			c.gap(answer.Resource, err)
			continue
		}

		for _, item := range found.Items {
			status, _ := item["status"].(object)
			if version, isText := status["observedKubeVirtVersion"].(string); isText {
				c.archive.Versions["KubeVirt"] = version
			}
		}

		c.keepObjects(answer.Resource, found)
	}

	if version, err := c.Client.Version(ctx); err == nil {
		c.archive.Versions["Kubernetes"] = version
	} else {
		c.gap("version", err)
	}
}

// readPods reads the pods of the VMs and of KubeVirt, of what makes or offers devices their state, and
// of those of others what they take of their nodes.
func (c *Collector) readPods(ctx context.Context) {
	q := cluster.Query{Resource: "pods"}
	found, err := c.list(ctx, q)
	if apierrors.IsForbidden(err) {
		c.gap("pods", err)
		found, err = c.perNamespace(ctx, q)
	}

	if err != nil {
		c.gap("pods", err)
		return
	}

	kept := found
	kept.Items = nil

	for _, item := range found.Items {
		pod, err := podOf(item)
		if err != nil {
			c.gap("pods", err)
			continue
		}

		// A pod that has ended takes nothing of its node any more. One of the VM says why it
		// ended.
		isOf := func(in cluster.Instance) bool { return cluster.IsLauncherOf(pod, in) }
		isEnded := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		switch {
		case isComponent(pod) || slices.ContainsFunc(c.vms, isOf):
			c.pods = append(c.pods, pod)
			kept.Items = append(kept.Items, item)
		case provider.Is(pod) && !isEnded:
			c.providers = append(c.providers, pod)
			kept.Items = append(kept.Items, offering(item))
		case pod.Spec.NodeName != "" && !isEnded:
			kept.Items = append(kept.Items, used(item))
		}
	}

	if kept.Kind != "" {
		c.keepObjects("pods", kept)
	}
}

// podOf decodes a pod.
func podOf(item object) (*corev1.Pod, error) {
	data, err := json.Marshal(item)
	if err != nil {
		return nil, err
	}

	pod := &corev1.Pod{}
	err = json.Unmarshal(data, pod)
	return pod, err
}

// used returns what another's pod takes of its node, and nothing else of it.
func used(item object) object {
	metadata, _ := item["metadata"].(object)
	spec, _ := item["spec"].(object)
	status, _ := item["status"].(object)
	for _, key := range []string{"initContainers", "containers"} {
		containers, _ := spec[key].([]any)
		for i, c := range containers {
			container, _ := c.(object)
			containers[i] = only(container, "name", "resources", "restartPolicy")
		}
	}

	return object{
		"apiVersion": item["apiVersion"], "kind": item["kind"],
		"metadata": only(metadata, "name", "namespace", "labels", "uid"),
		"spec": only(spec, "nodeName", "initContainers", "containers", "overhead",
			"resourceClaims", "resources"),
		"status": only(status, "phase", "resourceClaimStatuses"),
	}
}

// offering returns what says whether a pod runs that makes or offers devices: beside what it takes of
// its node its owner, and the states of its containers.
func offering(item object) object {
	metadata, _ := item["metadata"].(object)
	status, _ := item["status"].(object)
	kept := used(item)
	kept["metadata"] = only(metadata, "name", "namespace", "labels", "uid", "creationTimestamp",
		"ownerReferences")
	kept["status"] = only(status, "phase", "reason", "message", "conditions",
		"initContainerStatuses", "containerStatuses", "resourceClaimStatuses")
	return kept
}

// only returns some fields of an object.
func only(whole object, names ...string) object {
	kept := object{}
	for _, name := range names {
		if value, has := whole[name]; has {
			kept[name] = value
		}
	}

	return kept
}
