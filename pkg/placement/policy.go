package placement

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// Key names one setting of the policy, the same word as flag and as annotation.
type Key string

// The keys of the policy.
const (
	KeyLayout       Key = "layout"
	KeyStrict       Key = "strict"
	KeyAdd          Key = "add"
	KeyCompanions   Key = "companions"
	KeyHotplugPorts Key = "hotplug-ports"
	KeyDryRun       Key = "dry-run"
	KeyNCCLTopology Key = "nccl-topology"
)

// Keys are all keys of the policy, in the order of the documentation.
func Keys() []Key {
	return []Key{KeyLayout, KeyStrict, KeyAdd, KeyCompanions, KeyHotplugPorts, KeyDryRun, KeyNCCLTopology}
}

// AnnotationPrefix stands before a key in the annotations of a VMI.
const AnnotationPrefix = "hostdev.vm.kubevirt.io/"

// Layout is the shape of the guest's tree.
type Layout string

// The layouts.
const (
	LayoutKeep   Layout = "keep"   // touches no address
	LayoutNUMA   Layout = "numa"   // one expander bus a guest cell
	LayoutRoot   Layout = "root"   // one expander bus a host PCIe root
	LayoutMirror Layout = "mirror" // as root, with the host's switches
)

// Add says which devices that variables name are added to the domain.
type Add string

// The values of Add.
const (
	AddRequested Add = "requested" // those that the VMI names
	AddAll       Add = "all"       // and each further primary device
	AddNone      Add = "none"
)

// Companions says what happens to functions of a device that are not in the domain.
type Companions string

// The values of Companions.
const (
	CompanionsKeep Companions = "keep" // only functions of the domain
	CompanionsAdd  Companions = "add"  // VFIO-bound functions of the same IOMMU group too
)

// NCCLTopology says how the guest gets the topology file for NCCL.
type NCCLTopology string

// The values of NCCLTopology.
const (
	NCCLTopologyNone  NCCLTopology = "none"  // not from the hook
	NCCLTopologyFWCfg NCCLTopology = "fwcfg" // as an entry of QEMU's fw_cfg device
)

// HotplugAuto leaves the count of free root ports to KubeVirt's formula.
const HotplugAuto = -1

// Origin says where the value of a setting comes from.
type Origin string

// The origins of a setting.
const (
	OriginDefault    Origin = "default"
	OriginFlag       Origin = "flag"
	OriginAnnotation Origin = "annotation"
)

// Policy is what the user wants, each key resolved.
type Policy struct {
	Layout       Layout
	Strict       bool
	Add          Add
	Companions   Companions
	HotplugPorts int // free root ports to keep, or HotplugAuto
	DryRun       bool
	NCCLTopology NCCLTopology

	Keep    []string       // aliases that are not moved
	Origins map[Key]Origin // where each value comes from
}

// Value is a setting as it is written in a flag or an annotation.
func (p Policy) Value(key Key) string {
	switch key {
	case KeyLayout:
		return string(p.Layout)
	case KeyStrict:
		return strconv.FormatBool(p.Strict)
	case KeyAdd:
		return string(p.Add)
	case KeyCompanions:
		return string(p.Companions)
	case KeyHotplugPorts:
		if p.HotplugPorts == HotplugAuto {
			return "auto"
		}
		return strconv.Itoa(p.HotplugPorts)
	case KeyNCCLTopology:
		return string(p.NCCLTopology)
	default:
		return strconv.FormatBool(p.DryRun)
	}
}

// PolicySource is what a policy is resolved from.
type PolicySource struct {
	Flags            map[Key]string    // as given; only those that were given
	Annotations      map[string]string // of the VMI; other annotations are passed over
	AnnotationsFirst bool              // the annotation beats the flag, but for Locked
	Locked           []Key             // keys whose annotation does not count
	HasVMI           bool              // decides the default of add
	Keep             []string
}

// ResolvePolicy makes a policy of flags and annotations. A flag with a bad
// value is an error. An annotation that is unknown, bad or locked is returned
// as a warning and does not count; in strict mode unknown and bad ones are an
// error. Strict itself is resolved first, so that it is known either way.
func ResolvePolicy(src PolicySource) (Policy, []Warning, error) {
	p := Policy{
		Layout: LayoutNUMA, Add: AddAll, Companions: CompanionsKeep, HotplugPorts: HotplugAuto,
		NCCLTopology: NCCLTopologyNone,
		Keep:         src.Keep, Origins: map[Key]Origin{},
	}
	if src.HasVMI {
		p.Add = AddRequested
	}
	for _, key := range Keys() {
		p.Origins[key] = OriginDefault
		if value, given := src.Flags[key]; given {
			if err := p.set(key, value); err != nil {
				return p, nil, &PolicyError{Texts: []string{fmt.Sprintf("flag --%s: %v", key, err)}}
			}
			p.Origins[key] = OriginFlag
		}
	}
	warnings, bad := p.applyAnnotations(src)
	if p.Strict && len(bad) > 0 {
		return p, warnings, &PolicyError{Texts: bad}
	}
	return p, warnings, nil
}

// applyAnnotations sets what annotations say and returns a warning for each
// that does not count, and the texts of those that strict mode refuses.
func (p *Policy) applyAnnotations(src PolicySource) (warnings []Warning, bad []string) {
	for _, name := range slices.Sorted(maps.Keys(src.Annotations)) {
		text, ours := strings.CutPrefix(name, AnnotationPrefix)
		if !ours {
			continue
		}
		key, value := Key(text), src.Annotations[name]
		switch {
		case !slices.Contains(Keys(), key):
			w := NewWarning(CodeUnknownPolicyKey, nil, fmt.Sprintf("annotation %s is not known", name))
			bad, warnings = append(bad, w.refusal()), append(warnings, w)
		case slices.Contains(src.Locked, key):
			warnings = append(warnings, NewWarning(CodePolicyLocked, nil,
				fmt.Sprintf("annotation %s is ignored, the key is locked", name)))
		case p.Origins[key] == OriginFlag && !src.AnnotationsFirst:
		default:
			if err := p.set(key, value); err != nil {
				w := NewWarning(CodeBadPolicyValue, nil, fmt.Sprintf("annotation %s: %v", name, err))
				if key != KeyStrict {
					bad = append(bad, w.refusal())
				}
				warnings = append(warnings, w)
				continue
			}
			p.Origins[key] = OriginAnnotation
		}
	}
	return warnings, bad
}

// set parses value and stores it under key; on an error nothing changes.
func (p *Policy) set(key Key, value string) (err error) {
	switch key {
	case KeyLayout:
		return choose(&p.Layout, value, LayoutKeep, LayoutNUMA, LayoutRoot, LayoutMirror)
	case KeyAdd:
		return choose(&p.Add, value, AddRequested, AddAll, AddNone)
	case KeyCompanions:
		return choose(&p.Companions, value, CompanionsKeep, CompanionsAdd)
	case KeyStrict:
		return setBool(&p.Strict, value)
	case KeyDryRun:
		return setBool(&p.DryRun, value)
	case KeyHotplugPorts:
		return p.setHotplugPorts(value)
	case KeyNCCLTopology:
		return choose(&p.NCCLTopology, value, NCCLTopologyNone, NCCLTopologyFWCfg)
	}
	return fmt.Errorf("key %q is not known", key)
}

func (p *Policy) setHotplugPorts(value string) error {
	if value == "auto" {
		p.HotplugPorts = HotplugAuto
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 8)
	if err != nil {
		return fmt.Errorf("%q is neither auto nor a number from 0 to 255", topology.Abridge(value))
	}
	p.HotplugPorts = int(n)
	return nil
}

func setBool(to *bool, value string) error {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", topology.Abridge(value))
	}
	*to = b
	return nil
}

func choose[T ~string](to *T, value string, allowed ...T) error {
	if !slices.Contains(allowed, T(value)) {
		return fmt.Errorf("%q is none of %s", topology.Abridge(value), joined(allowed))
	}
	*to = T(value)
	return nil
}

func joined[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

// PolicyError is a policy that cannot be used.
type PolicyError struct {
	Texts []string // one for each setting that is wrong
}

func (e *PolicyError) Error() string { return "policy: " + strings.Join(e.Texts, "; ") }

// ParseKey reads the name of a key.
func ParseKey(name string) (Key, error) {
	var key Key
	return key, choose(&key, name, Keys()...)
}
