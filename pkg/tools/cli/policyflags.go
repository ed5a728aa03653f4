package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/pflag"

	"hook-sidecar/pkg/policy"
)

// PolicyFlags are the policy as flags.
type PolicyFlags struct {
	flags            *pflag.FlagSet
	keep, lock       []string
	annotationsFirst bool
}

// AddPolicyFlags adds the flags of a command that plans.
func AddPolicyFlags(flags *pflag.FlagSet) *PolicyFlags {
	p := &PolicyFlags{flags: flags}
	for _, s := range policy.Settings() {
		switch {
		case s.IsBool():
			flags.Bool(string(s.Key), false, s.Meaning)
		case s.WithoutVMI != "":
			flags.String(string(s.Key), "",
				fmt.Sprintf("%s\n(default %q with a VMI, %q without)", s.Meaning, s.Default,
					s.WithoutVMI))

		default:
			flags.String(string(s.Key), s.Default, s.Meaning)
		}
	}

	flags.StringArrayVar(&p.keep, "keep", nil, "alias of a device that is not moved (repeatable)")
	return p
}

// AddHookPolicyFlags adds the flags of the hook: annotations override them unless their keys
// are locked.
func AddHookPolicyFlags(flags *pflag.FlagSet) *PolicyFlags {
	p := AddPolicyFlags(flags)
	p.annotationsFirst = true
	flags.StringSliceVar(&p.lock, "lock", nil, "policy keys whose annotations are ignored")
	return p
}

// Given returns the keys that were set on the command line, checked.
func (p *PolicyFlags) Given() (policy.Source, error) {
	source := policy.Source{
		Flags: map[policy.Key]string{}, Keep: p.keep, AnnotationsFirst: p.annotationsFirst,
	}

	for _, key := range policy.Keys() {
		if f := p.flags.Lookup(string(key)); f.Changed {
			source.Flags[key] = f.Value.String()
		}
	}

	for _, name := range p.lock {
		key, err := policy.ParseKey(name)
		if err != nil {
			return source, Failed("--lock takes policy keys, as in --lock strict,layout",
				fmt.Errorf("flag --lock: %w", err))
		}

		source.Locked = append(source.Locked, key)
	}

	if _, _, err := policy.Resolve(source); err != nil {
		return source, Failed("--help lists the values of each flag", err)
	}

	return source, nil
}

// ParseValid applies the valid flags of an invalid command line. Strict is off with --strict=false
// alone.
func (p *PolicyFlags) ParseValid(arguments []string) {
	set := func(f *pflag.Flag, value string) error {
		if p.flags.Set(f.Name, value) != nil && f.Name == string(policy.KeyStrict) {
			return p.flags.Set(f.Name, "true")
		}
		return nil
	}

	p.flags.ParseErrorsAllowlist.UnknownFlags = true
	_ = p.flags.ParseAll(arguments, set) // the error is known
}

// HookPolicy returns the policy that a hook has by the arguments of its container. Those that
// are not of the policy, or of a later version, are ignored.
func HookPolicy(arguments []string) (policy.Source, error) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	p := AddHookPolicyFlags(flags)
	invalid := flags.Parse(arguments)
	source, err := p.Given()
	if err = cmp.Or(invalid, err); err != nil {
		return source, Failed("correct args of the hook, or use the kubectl-hostdev of its release",
			fmt.Errorf("read the arguments of its hook: %w", err))
	}

	return source, nil
}
