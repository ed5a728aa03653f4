package fit

import (
	"fmt"
	"math"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// version is the version of Kubernetes as which the allocator acts.
type version struct {
	found  int    // the minor version of Kubernetes 1
	source string // what says so
}

// version returns the cluster's version: that of its API server, or of its newest kubelet, which is
// not newer (kubernetes.io/releases/version-skew-policy); else what the user assumes; else Latest.
func (o *Objects) version() version {
	newest := 0
	for _, n := range o.Nodes {
		if minor, err := Minor(n.Status.NodeInfo.KubeletVersion); err == nil {
			newest = max(newest, minor)
		}
	}

	switch server, err := Minor(o.ServerVersion); {
	case err == nil:
		return version{server, "the API server's version"}
	case newest > 0:
		return version{newest, "the kubelets' version"}
	case o.AssumedMinor > 0:
		return version{o.AssumedMinor, "--kubernetes"}
	}

	return version{Latest, "the newest that fit knows"}
}

// minor returns the minor version as which the allocator can act.
func (v version) minor() int { return min(max(v.found, Oldest), Latest) }

func (v version) String() string {
	if v.found != v.minor() {
		return fmt.Sprintf("1.%d, for 1.%d: %s", v.minor(), v.found, v.source)
	}
	return fmt.Sprintf("1.%d: %s", v.found, v.source)
}

// Minor returns the minor version of a version of Kubernetes 1, such as 1.36 or v1.36.2.
func Minor(text string) (int, error) {
	v, err := utilversion.ParseGeneric(text)
	if err != nil || v.Major() != 1 || v.Minor() > math.MaxInt32 {
		return 0, fmt.Errorf("invalid version of Kubernetes %q: must be as 1.36", text)
	}
	return int(v.Minor()), nil
}
