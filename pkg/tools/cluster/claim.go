package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Claimed is a ResourceClaim with the VM that has its devices.
type Claimed struct {
	Claim *resourceapi.ResourceClaim
	VM    Instance
	Pod   string // of the VM: in a migration each pod has claims of its own
	Err   error  // why no VM has its devices
}

// Claimed finds the claims of a namespace that have a name, which may also be the name that VMs
// have for them, or that of the template that they are made of.
func (c *Client) Claimed(ctx context.Context, namespace, name string) ([]Claimed, error) {
	var claims resourceapi.ResourceClaimList
	err := c.decode(ctx, "read resourceclaims", Query{
		Group: resourceapi.GroupName, Resource: "resourceclaims", Namespace: namespace,
	}, &claims)
	if err != nil {
		return nil, err
	}

	var pods corev1.PodList
	err = c.decode(ctx, "find the pods of VMs", Query{
		Resource: "pods", Namespace: namespace,
		Parameters: map[string]string{"labelSelector": v1.AppLabel + "=virt-launcher"},
	}, &pods)
	if err != nil {
		return nil, err
	}

	instances, err := c.Instances(ctx, namespace, "")
	if err != nil {
		return nil, err
	}

	var found []Claimed
	for _, claim := range named(claims.Items, pods.Items, name) {
		found = append(found, usersOf(&claim, pods.Items, instances)...)
	}

	if len(found) == 0 {
		names := topology.Map(claims.Items, func(c resourceapi.ResourceClaim) string {
			return c.Name
		})
		return nil, reasons.WithHint(words.DidYouMean(name, names, "", " ")+"name its namespace "+
			"with -n; kubectl get resourceclaims -A lists all",
			fmt.Errorf("there is no ResourceClaim %s/%s, and no VM has one under this name or by a "+
				"template of this name", namespace, words.Abridge(name)))
	}

	return found, nil
}

// named returns the claim of a name, else those that VMs' pods have under this name or by a
// template of this name.
func named(
	claims []resourceapi.ResourceClaim, pods []corev1.Pod, name string,
) (found []resourceapi.ResourceClaim) {
	for _, c := range claims {
		if c.Name == name {
			found = append(found, c)
		}
	}

	if len(found) > 0 {
		return found
	}

	return slices.DeleteFunc(slices.Clone(claims), func(c resourceapi.ResourceClaim) bool {
		return !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return calls(p, c, name) })
	})
}

// calls reports whether a pod has a claim under a name, or by a template of this name.
func calls(p corev1.Pod, c resourceapi.ResourceClaim, name string) bool {
	return p.Namespace == c.Namespace && slices.ContainsFunc(p.Status.ResourceClaimStatuses, func(
		s corev1.PodResourceClaimStatus,
	) bool {
		return ptr.Deref(s.ResourceClaimName, "") == c.Name && (s.Name == name ||
			slices.ContainsFunc(p.Spec.ResourceClaims, func(entry corev1.PodResourceClaim) bool {
				return entry.Name == s.Name &&
					ptr.Deref(entry.ResourceClaimTemplateName, "") == name
			}))
	})
}

// usersOf returns a claim with each VM whose pod has its devices, or why there is none.
func usersOf(
	c *resourceapi.ResourceClaim, pods []corev1.Pod, instances []Instance,
) (found []Claimed) {
	name := c.Namespace + "/" + c.Name
	if c.Status.Allocation == nil {
		return []Claimed{{Claim: c, Err: reasons.WithHint("start a VM with it; kubectl hostdev fit "+
			"-f FILE says where one fits", fmt.Errorf("claim %s has no devices: none are allocated",
			name))}}
	}

	for _, user := range c.Status.ReservedFor {
		pod := slices.IndexFunc(pods, func(p corev1.Pod) bool {
			return user.Resource == "pods" && p.Namespace == c.Namespace && p.Name == user.Name
		})
		vm := -1
		if pod >= 0 {
			vm = slices.IndexFunc(instances, func(in Instance) bool {
				return IsLauncherOf(&pods[pod], in)
			})
		}

		if vm < 0 {
			found = append(found, Claimed{Claim: c, Err: fmt.Errorf("claim %s is reserved for %s "+
				"%s, which is not the pod of a VM", name, user.Resource, user.Name)})
			continue
		}

		found = append(found, Claimed{Claim: c, VM: instances[vm], Pod: user.Name})
	}

	if len(found) == 0 {
		return []Claimed{{Claim: c, Err: fmt.Errorf("claim %s is reserved for no pod, so no VM has "+
			"its devices", name)}}
	}

	return found
}
