package why

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// getTable is what kubectl get prints of VMs or VMIs (KubeVirt
// pkg/virt-operator/resource/generate/components/crds.go: additionalPrinterColumns).
type getTable struct {
	kind    string
	columns []string
	begins  []int // where each column begins
}

// cells returns a row's cells by the names of their columns. An empty cell, such as the address of
// a VMI that does not run yet, shifts nothing: columns are found by where their titles begin.
func (t *getTable) cells(line string) map[string]string {
	cells := map[string]string{}
	words := strings.Fields(line)
	for i, column := range t.columns {
		switch {
		case len(words) == len(t.columns):
			cells[column] = words[i]
		case t.begins[i] < len(line):
			end := len(line)
			if i+1 < len(t.begins) {
				end = min(end, t.begins[i+1])
			}
			cells[column] = strings.TrimSpace(line[t.begins[i]:end])
		}
	}

	return cells
}

// newGetTable returns the table that a line is the header of, nil if it is none.
func newGetTable(line string) *getTable {
	t := getTable{columns: strings.Fields(line)}
	has := func(column string) bool { return slices.Contains(t.columns, column) }
	switch {
	case !has("NAME") || !has("AGE"):
		return nil
	case has("PHASE") && has("NODENAME"):
		t.kind = "VirtualMachineInstance"
	case has("STATUS") && has("READY") && !has("RESTARTS"): // a pod has these
		t.kind = "VirtualMachine"
	default:
		return nil
	}

	at := 0
	for _, column := range t.columns {
		at += strings.Index(line[at:], column)
		t.begins = append(t.begins, at)
		at += len(column)
	}

	return &t
}

// object returns the object that a row is about, with the fields that its cells have.
func (t *getTable) object(cells map[string]string) any {
	status := map[string]any{}
	if t.kind == "VirtualMachine" {
		status["printableStatus"] = cells["STATUS"]
	} else {
		status["phase"], status["nodeName"] = cells["PHASE"], cells["NODENAME"]
		if cells["READY"] == string(corev1.ConditionFalse) {
			status["conditions"] = []corev1.PodCondition{{
				Type:    corev1.PodConditionType(v1.VirtualMachineInstanceReady),
				Status:  corev1.ConditionFalse,
				Message: "READY is False",
			}}
		}
	}

	return map[string]any{
		"kind":     t.kind,
		"metadata": metav1.ObjectMeta{Namespace: cells["NAMESPACE"], Name: cells["NAME"]},
		"status":   status,
	}
}

// age parses an age as kubectl prints it (k8s.io/apimachinery pkg/util/duration), such as "3m20s"
// or "2d".
func age(text string) (time.Duration, bool) {
	const day = 24 * time.Hour
	units := map[byte]time.Duration{
		's': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': day, 'y': 365 * day,
	}

	var sum, number time.Duration
	for i := range len(text) {
		if digit := text[i] - '0'; digit <= 9 && number < 1e6 {
			number = 10*number + time.Duration(digit)
			continue
		}

		unit := units[text[i]]
		if unit == 0 {
			return 0, false
		}

		sum, number = sum+number*unit, 0
	}

	return sum, text != "" && number == 0
}
