//go:build lane

package nccl_test

import (
	"testing"

	product "hook-sidecar/pkg/keys/nccl"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/sys"
)

// lab judges guests with NCCL.
type lab struct {
	libvirt *oracle.Libvirt
	library nccl.Library
}

func newLab(t *testing.T) lab {
	t.Helper()
	return lab{library: nccl.Libraries(t)[0], libvirt: oracle.New(t)}
}

// hasJob reports whether NCCL has something to do: two GPUs, or a GPU and a NIC.
func (l lab) hasJob(t *testing.T, c nccl.Case) bool {
	t.Helper()
	machine, err := sys.Recorded(c.Sysfs)
	expect.NoError(t, err)
	gpus, nics := machine.GPUs(c.Devices), machine.NICs(c.Devices)
	return len(gpus) > 1 || len(gpus) == 1 && len(nics) > 0
}

// form is a way in which a guest gets its devices.
type form struct {
	name  string
	flags nccl.Flags
	file  bool // NCCL reads the topology file
	p2p   bool // the driver lets GPUs talk over PCIe, as with a clique
}

// host returns the decisions on the host itself.
func (l lab) host(t *testing.T, c nccl.Case) nccl.Decisions {
	t.Helper()
	machine, err := sys.Recorded(c.Sysfs)
	expect.NoError(t, err)
	return l.decide(t, c, machine, "", true)
}

// guest returns the decisions in a guest of the hook.
func (l lab) guest(t *testing.T, c nccl.Case, f form) nccl.Decisions {
	t.Helper()
	result := l.plan(t, c, f)
	file := ""
	if f.file {
		file = product.New(result.Plan).String()
	}

	return l.domain(t, c, result.Domain, file, f.p2p)
}

// plan returns what the hook makes of the case's domain.
func (l lab) plan(t *testing.T, c nccl.Case, f form) plan.Result {
	t.Helper()
	planner := plan.Planner{Sysfs: c.Sysfs, Details: true, Source: policy.Source{Flags: f.flags}}
	result := planner.Read(plan.Request{Domain: c.Domain, VMI: c.VMI}).Plan()
	expect.NoError(t, result.Err)
	return result
}

// domain returns the decisions in the guest of a domain.
func (l lab) domain(
	t *testing.T, c nccl.Case, domain []byte, file string, p2p bool,
) nccl.Decisions {
	t.Helper()
	return l.decide(t, c, l.machine(t, c, domain), file, p2p)
}

// machine returns the guest of a domain, with the addresses that libvirt gives.
func (l lab) machine(t *testing.T, c nccl.Case, domain []byte) sys.Machine {
	t.Helper()
	complete, err := l.libvirt.Readback(domain)
	expect.NoError(t, err)
	machine, err := sys.Guest(c.Sysfs, complete)
	expect.NoError(t, err)
	return machine
}

func (l lab) decide(
	t *testing.T, c nccl.Case, machine sys.Machine, file string, p2p bool,
) nccl.Decisions {
	t.Helper()
	job := nccl.Job{Machine: machine, Hardware: c.Hardware, Nodes: 2, P2P: p2p, File: file,
		GPUs: machine.GPUs(c.Devices), NICs: machine.NICs(c.Devices)}
	if len(job.NICs) == 0 {
		job.Nodes = 1
	}

	return l.library.Decide(t, job)
}
