package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/mutate"
)

// inputFlags are the files that mutate and explain read.
type inputFlags struct {
	domain, vmi, environ, sysfs string
	policy                      *policyFlags
}

func addInputFlags(flags *pflag.FlagSet) *inputFlags {
	in := &inputFlags{}
	flags.StringVarP(&in.domain, "domain", "d", "-", "libvirt domain XML, or a virt-launcher log with its base64 dump; - is standard input")
	flags.StringVar(&in.vmi, "vmi", "", "VirtualMachineInstance as JSON")
	flags.StringVar(&in.environ, "env", "", "variables as NAME=VALUE lines, or a container's environ (default: those of this process)")
	flags.StringVar(&in.sysfs, "sysfs", "/sys", "the host: a /sys folder or a snapshot file")
	in.policy = addPolicyFlags(flags)
	return in
}

// request reads the inputs. The closer releases the host.
func (a *app) request(in *inputFlags) (mutate.Mutator, mutate.Request, io.Closer, error) {
	m, closer, err := a.mutator(in.sysfs, in.environ, in.policy)
	if err != nil {
		return m, mutate.Request{}, nil, err
	}
	req, err := a.readRequest(in.domain, in.vmi)
	if err == nil && req.VMI != nil {
		_, err = parseVMI(in.vmi, req.VMI)
	}
	if err != nil {
		return m, req, nil, errors.Join(err, closer.Close())
	}
	return m, req, closer, nil
}

// mutator is a Mutator over a host, variables and flags.
func (a *app) mutator(sysfs, environFile string, policy *policyFlags) (mutate.Mutator, io.Closer, error) {
	m, err := a.withoutHost(environFile, policy)
	if err != nil {
		return m, nil, err
	}
	host, closer, err := env.OpenSysfs(sysfs)
	if err != nil {
		return m, nil, failure{exitFailed, err, "--sysfs takes a /sys folder or a snapshot file"}
	}
	m.Sysfs = host
	return m, closer, nil
}

// withoutHost is a Mutator over variables and flags that has no host yet.
func (a *app) withoutHost(environFile string, policy *policyFlags) (mutate.Mutator, error) {
	flags, err := policy.given()
	if err != nil {
		return mutate.Mutator{}, failure{exitFailed, err, "--help lists the values of each flag"}
	}
	environ, err := a.readEnviron(environFile)
	if err != nil {
		return mutate.Mutator{}, err
	}
	variables, problems := env.ParseVariables(environ)
	return mutate.Mutator{Variables: variables, Problems: problems, Flags: flags, Keep: policy.keep}, nil
}

func (a *app) readEnviron(file string) ([]string, error) {
	if file == "" {
		return a.environ, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	environ, err := env.ReadEnvironFile(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return environ, nil
}

func (a *app) readRequest(domainFile, vmiFile string) (mutate.Request, error) {
	var req mutate.Request
	if domainFile == "-" && vmiFile == "-" {
		return req, failure{exitFailed, errors.New("the domain and the VMI are both to be read from standard input"), "give one of --domain and --vmi a file"}
	}
	data, err := a.readInput(domainFile)
	if err != nil {
		return req, err
	}
	if req.Domain, err = env.FindDomain(data); err != nil {
		return req, failure{exitFailed, fmt.Errorf("%s: %w", named(domainFile), err), domainHint(err)}
	}
	if vmiFile != "" {
		if req.VMI, err = a.readInput(vmiFile); err != nil {
			return req, err
		}
	}
	return req, nil
}

// domainHint is where a domain is to be had when what was read holds none.
func domainHint(err error) string {
	if errors.Is(err, env.ErrCutOff) {
		return "take the whole line of virt-launcher's log, which is long; what shows or stores the log may have cut it"
	}
	return "virsh dumpxml VM writes a domain; virt-launcher's log holds one at verbosity 2"
}

// parseVMI reads the VMI that a file holds.
func parseVMI(file string, data []byte) (*env.VMI, error) {
	vmi, err := env.ParseVMI(data)
	if err != nil {
		return nil, failure{exitFailed, fmt.Errorf("%s: %w", named(file), err), "the VMI as JSON: kubectl get vmi NAME -o json"}
	}
	return vmi, nil
}

// named is what a file is called in an error.
func named(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// maxInput bounds what is read of a file, in bytes: a domain of 8 MiB as base64
// within a log.
const maxInput = 64 << 20

func (a *app) readInput(file string) ([]byte, error) {
	if file == "-" {
		return readBounded(a.in, named(file))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	data, err := readBounded(f, file)
	return data, errors.Join(err, f.Close())
}

func readBounded(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err == nil && len(data) > maxInput {
		err = fmt.Errorf("more than %d bytes", maxInput)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, withoutName(err))
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("read %s: it is empty", name)
	}
	return data, nil
}
