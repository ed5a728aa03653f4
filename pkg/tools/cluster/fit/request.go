package fit

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// preset sets what requests in a file lack: defaults of the API server.
func preset(requests []resourceapi.DeviceRequest) error {
	set := func(mode *resourceapi.DeviceAllocationMode, count *int64) {
		if *mode != resourceapi.DeviceAllocationModeAll {
			*mode, *count = resourceapi.DeviceAllocationModeExactCount, max(*count, 1)
		}
	}

	for _, r := range requests {
		for i := range r.FirstAvailable {
			set(&r.FirstAvailable[i].AllocationMode, &r.FirstAvailable[i].Count)
		}
		switch {
		case r.Exactly != nil:
			set(&r.Exactly.AllocationMode, &r.Exactly.Count)
		case r.FirstAvailable == nil:
			return fmt.Errorf("request %s has neither exactly nor firstAvailable", r.Name)
		}
	}

	return nil
}

// takesDevices reports whether claims take a device; one with adminAccess takes none.
func takesDevices(claims []*resourceapi.ResourceClaim) bool {
	for _, claim := range claims {
		for _, r := range claim.Spec.Devices.Requests {
			if r.Exactly == nil || !ptr.Deref(r.Exactly.AdminAccess, false) {
				return true
			}
		}
	}

	return false
}

// derives reports whether the scheduler derives an attribute of a request's devices.
func derives(claim *resourceapi.ResourceClaim, name, attribute string) bool {
	request := requestOf(claim, name)
	return request != nil && slices.ContainsFunc(alternatives(*request), func(
		r resourceapi.ExactDeviceRequest,
	) bool {
		return slices.ContainsFunc(r.DerivedAttributes, func(
			d resourceapi.DeviceDerivedAttribute,
		) bool {
			return string(d.Name) == attribute
		})
	})
}

// requestOf returns the request of a result.
func requestOf(claim *resourceapi.ResourceClaim, name string) *resourceapi.DeviceRequest {
	all := claim.Spec.Devices.Requests
	i := slices.IndexFunc(all, func(r resourceapi.DeviceRequest) bool {
		return r.Name == parentOf(name)
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// parentOf returns the request of a result: one that took the first of several has its own name and
// that of the one that it took.
func parentOf(request string) string {
	parent, _, _ := strings.Cut(request, "/")
	return parent
}

// leastOf returns how many devices a request gets at least.
func leastOf(request resourceapi.DeviceRequest) int64 {
	least := int64(0)
	for _, r := range alternatives(request) {
		count := int64(1)
		if r.AllocationMode != resourceapi.DeviceAllocationModeAll {
			count = r.Count
		}
		if least == 0 || count < least {
			least = count
		}
	}

	return least
}

// alternatives returns what a request asks for: one thing, or the first of several that there is.
func alternatives(request resourceapi.DeviceRequest) (all []resourceapi.ExactDeviceRequest) {
	if request.Exactly != nil {
		return []resourceapi.ExactDeviceRequest{*request.Exactly}
	}

	for _, s := range request.FirstAvailable {
		all = append(all, resourceapi.ExactDeviceRequest{
			DeviceClassName:   s.DeviceClassName,
			Selectors:         s.Selectors,
			AllocationMode:    s.AllocationMode,
			Count:             s.Count,
			Tolerations:       s.Tolerations,
			Capacity:          s.Capacity,
			DerivedAttributes: s.DerivedAttributes,
		})
	}

	return all
}
