package kubevirt

import (
	"encoding/json"
	"slices"
	"time"
)

// Object is a VirtualMachine or a VirtualMachineInstance: the state it is in and the volumes that
// it names (KubeVirt staging/src/kubevirt.io/api/core/v1/types.go and schema.go).
type Object struct {
	Spec struct {
		Running             *bool
		RunStrategy         string
		Template            Template // of a VirtualMachine
		DataVolumeTemplates []struct{ Metadata struct{ Name string } }
		Domain              struct{ Devices Devices }
		Volumes             []volume
	}
	Status struct {
		PrintableStatus           string
		EvacuationNodeName        string
		MigrationState            *Migration
		StartFailure              *StartFailure
		PhaseTransitionTimestamps []PhaseTransition
		VolumeStatus              []struct{ PersistentVolumeClaimInfo claim }
	}
}

// Template has the metadata and the volumes that a VirtualMachine gives its VMI.
type Template struct {
	Metadata struct{ Labels, Annotations map[string]string }
	Spec     struct{ Volumes []volume }
}

// Migration is the last migration of a VMI.
type Migration struct {
	migrationState
	SourceNode    string
	FailureReason string
}

// End returns when the migration ended, the zero time if that is not known.
func (m Migration) End() time.Time {
	if m.EndTimestamp == nil {
		return time.Time{}
	}
	return parseTime(*m.EndTimestamp)
}

// StartFailure says how often in a row a VirtualMachine failed to start.
type StartFailure struct {
	ConsecutiveFailCount int
	RetryAfterTimestamp  string
}

// RetryAfter returns when it starts again, the zero time if that is not known.
func (s StartFailure) RetryAfter() time.Time { return parseTime(s.RetryAfterTimestamp) }

// PhaseTransition says when a VMI came into a phase.
type PhaseTransition struct {
	Phase                    string
	PhaseTransitionTimestamp string
}

// At returns the time of the transition, the zero time if that is not known.
func (p PhaseTransition) At() time.Time { return parseTime(p.PhaseTransitionTimestamp) }

// parseTime parses a time, and returns the zero time if it cannot.
func parseTime(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text) // zero with an error
	return t.UTC()
}

type claim struct{ ClaimName string }

type volume struct {
	PersistentVolumeClaim, MemoryDump claim
	DataVolume                        struct{ Name string }
	Ephemeral                         struct{ PersistentVolumeClaim claim }
}

// ParseObject reads a VirtualMachine or a VirtualMachineInstance from JSON as far as its fields
// fit. The types of KubeVirt's API refuse an object with one field of another version. Times are
// strings here, because package json stops at a time that it cannot parse.
func ParseObject(data []byte) Object {
	var o Object
	json.Unmarshal(data, &o) // goes on after a field of a wrong type
	return o
}

// VolumeNames returns the names of the object's PersistentVolumeClaims and DataVolumes, whose
// claims have the same names.
func (o Object) VolumeNames() (names []string) {
	for _, t := range o.Spec.DataVolumeTemplates {
		names = append(names, t.Metadata.Name)
	}

	for _, v := range slices.Concat(o.Spec.Template.Spec.Volumes, o.Spec.Volumes) {
		names = append(names, v.PersistentVolumeClaim.ClaimName, v.MemoryDump.ClaimName,
			v.DataVolume.Name, v.Ephemeral.PersistentVolumeClaim.ClaimName)
	}

	for _, s := range o.Status.VolumeStatus {
		names = append(names, s.PersistentVolumeClaimInfo.ClaimName)
	}

	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}
