package kubevirt_test

import (
	"slices"
	"testing"
	"time"

	"hook-sidecar/pkg/kubevirt"
)

// TestParseObjectFits: a field of another type costs itself and no other, before and after it.
func TestParseObjectFits(t *testing.T) {
	t.Parallel()
	o := kubevirt.ParseObject([]byte(`{
		"spec": {"runStrategy": 7, "running": true, "volumes": [
			{"dataVolume": {"name": "disk"}}, {"persistentVolumeClaim": 5},
			{"ephemeral": {"persistentVolumeClaim": {"claimName": "base"}}}
		]},
		"status": {
			"startFailure": {"retryAfterTimestamp": "soon", "consecutiveFailCount": 3},
			"migrationState": {"endTimestamp": "2026-03-01T12:00:00+01:00", "failed": "yes",
				"sourceNode": "gpu-1", "targetNode": "gpu-2"},
			"phaseTransitionTimestamps": [{"phase": "Running", "phaseTransitionTimestamp": 4}],
			"printableStatus": "Running",
			"volumeStatus": [{"persistentVolumeClaimInfo": {"claimName": "data"}}]
		}
	}`))

	if o.Spec.RunStrategy != "" || o.Spec.Running == nil || o.Status.PrintableStatus != "Running" {
		t.Errorf("spec %+v, status %+v", o.Spec, o.Status)
	}

	if f := o.Status.StartFailure; f.ConsecutiveFailCount != 3 || !f.RetryAfter().IsZero() {
		t.Errorf("start failure %+v", f)
	}

	end := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	if m := o.Status.MigrationState; m.SourceNode != "gpu-1" || m.TargetNode != "gpu-2" ||
		m.Failed || m.End() != end {
		t.Errorf("migration %+v, ended %s", m, m.End())
	}

	if p := o.Status.PhaseTransitionTimestamps; len(p) != 1 || p[0].Phase != "Running" ||
		!p[0].At().IsZero() {
		t.Errorf("phases %+v", p)
	}

	want := []string{"base", "data", "disk"}
	if got := o.VolumeNames(); !slices.Equal(got, want) {
		t.Errorf("volumes %v, want %v", got, want)
	}
}

// TestVolumeNames: a VM names volumes in its template and in the templates of its DataVolumes.
func TestVolumeNames(t *testing.T) {
	t.Parallel()
	got := kubevirt.ParseObject([]byte(`{"spec": {
		"dataVolumeTemplates": [{"metadata": {"name": "root"}}],
		"template": {"spec": {"volumes": [
			{"dataVolume": {"name": "root"}}, {"memoryDump": {"claimName": "dump"}},
			{"cloudInitNoCloud": {"userData": "#cloud-config"}}
		]}}
	}}`)).VolumeNames()
	if want := []string{"dump", "root"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
