package fit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Wish is a VM that has no claim yet: how many devices it needs, and how near.
type Wish struct {
	GPUs, NICs         int
	GPUClass, NICClass string // DeviceClasses
	Pair               bool   // each GPU shares a PCIe root with its NIC
	// or else the VM does not fit; without it the claim is written unpaired then
	MustPair  bool
	OneSocket bool // all devices are of one NUMA node, or else the VM does not fit
	// the GPUs are one NVLink partition; Count sets it where the driver publishes them
	Partition bool
}

// Count answers for the strictest claim of the wish that a node meets if nothing runs. It returns
// the claim and, as comments, why it is not stricter and a VM that uses it; "" where no node meets
// any.
func (w Wish) Count(ctx context.Context, f *Fleet) (answer Answer, claim string, err error) {
	w.Pair = w.Pair && w.GPUs > 0 && w.NICs > 0
	w.Partition = f.publishesPartitions(w.GPUs)
	answer, claim, err = w.count(ctx, f)
	if err == nil && claim == "" && w.Pair && !w.MustPair {
		note := "a GPU and its NIC may be of two PCIe roots, since no node has them of one" +
			answer.Cause()
		w.Pair = false
		answer, claim, err = w.count(ctx, f)
		if claim != "" {
			answer.Notes = append(answer.Notes, note)
		}
	}

	if err != nil || claim == "" {
		return answer, "", err
	}

	return answer, text("comment", struct {
		Answer
		Oldest, Latest int
	}{answer, Oldest, Latest}) + claim, nil
}

// count answers for the claim of the wish, and returns it if a node meets it.
func (w Wish) count(ctx context.Context, f *Fleet) (answer Answer, claim string, err error) {
	template, vm := text("claim", w), text("vm", w)
	o, err := Parse(File{"the claim", []byte(template)}, File{"its VM", []byte(vm)})
	if err != nil {
		return answer, "", err
	}

	shape, err := NewShape(o)
	if err != nil {
		return answer, "", err
	}

	// A VM that is not written yet can have any toleration.
	shape.Pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	answer, err = f.Count(ctx, shape)
	if err == nil && answer.Empty > 0 {
		err = f.checkVersions(ctx, shape, &answer)
	}

	if err != nil || answer.Empty == 0 {
		return answer, "", err
	}

	return answer, template + "# " + strings.ReplaceAll(vm, "\n", "\n# ") + "\n", nil
}

// checkVersions notes which versions of Kubernetes allocate a claim less or more often than the one
// of an answer.
func (f *Fleet) checkVersions(ctx context.Context, s Shape, answer *Answer) error {
	for minor := Oldest; minor <= Latest; minor++ {
		if minor == f.version.minor() {
			continue
		}

		other := *f
		other.version = version{found: minor}
		as, err := other.Count(ctx, s)
		if err != nil {
			return err
		}

		if as.Now != answer.Now || as.Empty != answer.Empty {
			answer.Notes = append(answer.Notes, fmt.Sprintf("Kubernetes 1.%d allocates it %d times "+
				"now, and %d times if nothing ran", minor, as.Now, as.Empty))
		}
	}

	return nil
}

// Cause returns why the VM does not fit on the first node with devices, as the end of a sentence.
func (a Answer) Cause() string {
	i := slices.IndexFunc(a.Nodes, func(n Node) bool { return len(n.Devices) > 0 && n.Why != "" })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf(": on node %s %s", a.Nodes[i].Name, a.Nodes[i].Why)
}
