package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Root makes a command the root of a program, with its commands, one that prints the version,
// and their common behaviour.
func (p *Program) Root(root *cobra.Command, commands ...*cobra.Command) {
	p.name = root.Name()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args, root.RunE = NoArguments, func(cmd *cobra.Command, _ []string) error {
		return cmd.Help()
	}

	root.SetIn(p.In)
	root.SetErr(p.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if name := cmd.Flags().Arg(0); cmd.HasSubCommands() && name != "" {
			return unknownCommand(cmd, name)
		}
		return Failed(suggestion(cmd, err)+SeeHelp(cmd), flagError(err))
	})

	root.SetHelpCommand(&cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			found, rest, _ := root.Find(args)
			if len(rest) > 0 {
				return unknownCommand(found, rest[0])
			}

			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		},
	})

	root.AddCommand(commands...)
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: "version prints the version of the program and the Go release that built " +
			"it.\n\nExit status: 0",
		Example: "  " + root.DisplayName() + " version",
		Args:    NoArguments,
		RunE: func(*cobra.Command, []string) error {
			return p.Write("", []byte(p.Version()+" "+runtime.Version()+"\n"))
		},
	})
}

// AddOutputFile adds the flag --output-file.
func AddOutputFile(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "output-file", "",
		"write to this file atomically (default: standard output)")
}

// AddOnlyFile adds --output-file to a command with one format. Its name of before, --output, is
// accepted with a warning.
func AddOnlyFile(flags *pflag.FlagSet, file *string) {
	AddOutputFile(flags, file)
	flags.StringVarP(file, "output", "o", "", "")
	// The only error is a flag that does not exist.
	if err := flags.MarkDeprecated("output", "write --output-file"); err != nil {
		panic(err)
	}
}

// AlsoNamed accepts another name of a flag, as it had before.
func AlsoNamed(flags *pflag.FlagSet, before, name string) {
	other := flags.GetNormalizeFunc()
	flags.SetNormalizeFunc(func(f *pflag.FlagSet, given string) pflag.NormalizedName {
		if given == before {
			given = name
		}
		return other(f, given)
	})
}

// Complete sets the values that a shell completes for a flag of the command.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	// The only error is a flag that does not exist.
	if err := cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// NoArguments rejects arguments that are not flags.
func NoArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return unknownCommand(cmd, args[0])
	}

	return Failed(hintFor(cmd, args[0]), fmt.Errorf("unexpected argument %q", args[0]))
}

// hintFor says which flag takes an argument: a boolean flag was given without a value, or a file is
// there of that name.
func hintFor(cmd *cobra.Command, arg string) string {
	var boolean string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" {
			boolean = f.Name
		}
	})

	_, err := os.Stat(arg)
	switch domain := cmd.Flags().Lookup("domain"); {
	case err == nil && domain != nil && !domain.Changed:
		return fmt.Sprintf("did you mean --domain %s?", arg)
	case err != nil && boolean != "":
		return fmt.Sprintf("did you mean --%s=%s? It must be true or false", boolean, arg)
	}

	return "pass files with flags, " + SeeHelp(cmd)
}

// AtMostOne rejects a second argument.
func AtMostOne(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	return Failed(SeeHelp(cmd), fmt.Errorf("unexpected argument %q", args[1]))
}

func unknownCommand(root *cobra.Command, name string) error {
	names := topology.Map(root.Commands(), (*cobra.Command).Name)
	return Failed(words.DidYouMean(name, names, "", " ")+SeeHelp(root),
		fmt.Errorf("unknown command %q", name))
}

// suggestion returns "did you mean --FLAG? " for an error about a mistyped flag.
func suggestion(cmd *cobra.Command, err error) string {
	unknown, isUnknown := errors.AsType[*pflag.NotExistError](err)
	if !isUnknown || unknown.GetSpecifiedShortnames() != "" {
		return ""
	}

	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return words.DidYouMean("--"+unknown.GetSpecifiedName(), names, "", " ")
}

// SeeHelp returns the hint to the help of a command.
func SeeHelp(cmd *cobra.Command) string { return fmt.Sprintf("see %s --help", cmd.CommandPath()) }

// wanted says what values a flag of a type has.
func wanted(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "int":
		return "a number"
	case sections:
		return allDetails + ", or any of " + strings.Join(report.Sections, ", ")
	default:
		return "a value of type " + kind
	}
}

// flagError returns an error of pflag in the words of the other errors.
func flagError(err error) error {
	if invalid, isInvalid := errors.AsType[*pflag.InvalidValueError](err); isInvalid {
		return fmt.Errorf("invalid --%s %q: must be %s", invalid.GetFlag().Name,
			words.Abridge(invalid.GetValue()), wanted(invalid.GetFlag().Value.Type()))
	}

	if missing, isMissing := errors.AsType[*pflag.ValueRequiredError](err); isMissing {
		return fmt.Errorf("flag --%s needs a value", missing.GetFlag().Name)
	}
	return err
}
