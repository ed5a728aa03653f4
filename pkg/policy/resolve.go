package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/reasons"
)

// AnnotationPrefix precedes a key in the annotations of a VMI.
const AnnotationPrefix = "hostdev.vm.kubevirt.io/"

// Source has the inputs that a policy is resolved from.
type Source struct {
	Flags       map[Key]string    // as given; only those that were given
	Annotations map[string]string // of the VMI; those without AnnotationPrefix are ignored
	// an annotation overrides the flag, unless its key is in Locked
	AnnotationsFirst bool
	Locked           []Key // keys whose annotation is ignored
	HasVMI           bool  // selects the default of add
	Keep             []string
}

// Resolve makes a policy of flags and annotations. A flag with an invalid value is an error. An
// annotation that is unknown, invalid or locked is ignored with a warning; in strict mode unknown
// and invalid ones are an error. Even with an error the policy has every key, by the values that
// are valid.
func Resolve(src Source) (Policy, []reasons.Finding, error) {
	p := Policy{Keep: src.Keep, Origins: map[Key]Origin{}, Named: map[Key]bool{}}
	var invalid []string
	for _, s := range settings {
		preset := s.Default
		if !src.HasVMI && s.WithoutVMI != "" {
			preset = s.WithoutVMI
		}

		// The default is set first, so that a key with an invalid flag has a value, too.
		p.Origins[s.Key] = OriginDefault
		err := s.set(&p, "default of "+string(s.Key), preset)
		if value, given := src.Flags[s.Key]; given && err == nil {
			p.Origins[s.Key] = OriginFlag
			err = s.set(&p, "--"+string(s.Key), value)
		}

		if err != nil {
			invalid = append(invalid, err.Error())
		}
	}

	warnings, refused := p.applyAnnotations(src)
	for key, origin := range p.Origins {
		isCommands := origin == OriginFlag && !src.AnnotationsFirst
		p.Named[key] = origin == OriginAnnotation || isCommands
	}

	// Only now: an annotation may have changed strict itself.
	if p.Strict {
		invalid = append(invalid, refused...)
	}

	if len(invalid) > 0 {
		return p, warnings, errors.New(strings.Join(invalid, "; "))
	}

	return p, warnings, nil
}

// applyAnnotations applies annotations. It returns a warning for each that is ignored, and the
// texts of those that strict mode refuses.
func (p *Policy) applyAnnotations(src Source) (warnings []reasons.Finding, refused []string) {
	for _, name := range slices.Sorted(maps.Keys(src.Annotations)) {
		text, found := strings.CutPrefix(name, AnnotationPrefix)
		if !found {
			continue
		}

		key := Key(text)
		i := slices.IndexFunc(settings, func(s Setting) bool { return s.Key == key })
		var w reasons.Finding
		switch {
		case i < 0:
			w = reasons.NewFinding(reasons.CodeUnknownPolicyKey, nil,
				fmt.Sprintf("unknown annotation %s: the key %s", name, mustBeKey(text)))

		case slices.Contains(src.Locked, key):
			w = reasons.NewFinding(reasons.CodePolicyLocked, nil,
				fmt.Sprintf("annotation %s is ignored: its key is locked", name))

		case p.Origins[key] == OriginFlag && !src.AnnotationsFirst:
			continue
		default:
			err := settings[i].set(p, "annotation "+name, src.Annotations[name])
			if err == nil {
				p.Origins[key] = OriginAnnotation
				continue
			}
			w = reasons.NewFinding(reasons.CodeBadPolicyValue, nil, err.Error())
		}

		warnings = append(warnings, w)

		// An invalid value of strict is never an error.
		if w.Code != reasons.CodePolicyLocked && key != KeyStrict {
			refused = append(refused, fmt.Sprintf("%s: %s (%s)", w.Code, w.Text, w.Remedy))
		}
	}

	return warnings, refused
}
