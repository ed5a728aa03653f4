package collect

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/cluster/provider"
)

// about has, by resource, the check that an object of a namespace is about one of the VMs there. Of
// resources without one all objects are kept.
var about = map[string]func(c *Collector, namespace string, item object) bool{
	"persistentvolumeclaims":           (*Collector).isVolume,
	"datavolumes":                      (*Collector).isVolume,
	"virtualmachineinstancemigrations": (*Collector).isMigration,
	"virtualmachinerestores":           (*Collector).isRestore,
	"events":                           (*Collector).isEvent,
}

// relatedObjects reads the volumes, the migrations and the events of the VMs, and what limits or keeps
// their pods.
func (c *Collector) relatedObjects(ctx context.Context) {
	c.providersEvents(ctx)
	for _, namespace := range c.namespaces() {
		events := cluster.Query{Resource: "events", Namespace: namespace}
		for _, q := range append(cluster.Related(namespace), events) {
			found, err := c.list(ctx, q)
			switch {
			case apierrors.IsNotFound(err): // the cluster does not serve it
				continue
			case err != nil:
				c.gap(archive.Objects(namespace, q.Resource), err)
				continue
			}

			found.Items = slices.DeleteFunc(found.Items, func(item object) bool {
				isAbout := about[q.Resource]
				return isAbout != nil && !isAbout(c, namespace, item)
			})
			c.keepObjects(q.Resource, found)
		}
	}
}

// providersEvents reads the events about what makes or offers devices, in its namespaces.
func (c *Collector) providersEvents(ctx context.Context) {
	var namespaces []string
	for _, pod := range c.providers {
		if !slices.Contains(namespaces, pod.Namespace) {
			namespaces = append(namespaces, pod.Namespace)
		}
	}

	for _, namespace := range namespaces {
		found, err := c.list(ctx, cluster.Query{Resource: "events", Namespace: namespace})
		if err != nil {
			c.gapOnce(archive.Objects(namespace, "events"), err)
			continue
		}

		found.Items = slices.DeleteFunc(found.Items, func(event object) bool {
			return !c.isProvidersEvent(namespace, event)
		})
		c.keepObjects("events", found)
	}
}

// isProvidersEvent reports whether an event warns about a pod that makes or offers devices, or about
// their DaemonSet, and is not about a VM.
func (c *Collector) isProvidersEvent(namespace string, event object) bool {
	involved, _ := event["involvedObject"].(object)
	kind, _ := involved["kind"].(string)
	name, _ := involved["name"].(string)
	isPod := slices.ContainsFunc(c.providers, func(p *corev1.Pod) bool {
		return p.Namespace == namespace && p.Name == name
	})
	isSet := kind == "DaemonSet" && provider.IsNamed(namespace+"/"+name)
	return event["type"] == corev1.EventTypeWarning && (kind == "Pod" && isPod || isSet)
}

// isVolume reports whether an object is a volume that one of the VMs names.
func (c *Collector) isVolume(namespace string, item object) bool {
	metadata, _ := item["metadata"].(object)
	name, _ := metadata["name"].(string)
	return slices.Contains(c.volumes[namespace], name)
}

// isMigration reports whether a VirtualMachineInstanceMigration is of one of the VMs.
func (c *Collector) isMigration(namespace string, item object) bool {
	spec, _ := item["spec"].(object)
	return slices.ContainsFunc(c.vms, func(vm cluster.Instance) bool {
		return vm.Namespace == namespace && vm.Name == spec["vmiName"]
	})
}

// isRestore reports whether a VirtualMachineRestore is of one of the VMs.
func (c *Collector) isRestore(namespace string, item object) bool {
	spec, _ := item["spec"].(object)
	target, _ := spec["target"].(object)
	return slices.ContainsFunc(c.vms, func(vm cluster.Instance) bool {
		return vm.Namespace == namespace && vm.Name == target["name"]
	})
}

// isEvent reports whether an event is about one of the VMs, its pods or its volumes.
func (c *Collector) isEvent(namespace string, event object) bool {
	involved, _ := event["involvedObject"].(object)
	name, _ := involved["name"].(string)
	isNamed := func(vm cluster.Instance) bool {
		return namespace == vm.Namespace && strings.Contains(name, vm.Name)
	}

	return involved["namespace"] == namespace && (c.isPod(namespace, name) ||
		slices.Contains(c.volumes[namespace], name) || slices.ContainsFunc(c.vms, isNamed))
}
