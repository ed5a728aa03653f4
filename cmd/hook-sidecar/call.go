package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/tools/cli"
)

// callFlags are the flags of call.
type callFlags struct {
	inputFlags
	socket, plugin, output string
	showDiff               bool
}

func newCall(p *cli.Program) *cobra.Command {
	in := &callFlags{}
	cmd := &cobra.Command{
		Use:   "call --socket FILE --domain FILE --vmi FILE",
		Short: "Call a hook on its socket, as virt-launcher does",
		Long: `call asks a hook for its versions, calls it to define a domain, and prints the
domain that the hook returns. It has the limits of virt-launcher and chooses the
version as virt-launcher does. It prints to standard error what the hook offers
and how long each call took.

Exit status:
  0  the hook answered, or no change with --diff
  1  --diff found a change
  2  usage error, invalid input or no answer
  3  the hook refused the domain`,
		Example: `  hook-sidecar call --socket /var/run/kubevirt-hooks/hook.sock --domain vm.xml ` +
			`--vmi vmi.json --diff
  hook-sidecar call --plugin --socket hook.sock --domain vm.xml --vmi vmi.json`,
	}

	flags := cmd.Flags()
	flags.StringVar(&in.socket, "socket", "", "socket of the hook")
	in.addDomain(flags, ", the default")
	addVMIFlag(flags, &in.vmi)
	flags.StringVar(&in.plugin, "plugin", "",
		"call a structured plugin as KubeVirt `VERSION` 1.9 or 1.10 does, not OnDefineDomain")
	flags.Lookup("plugin").NoOptDefVal = pluginOf19
	cli.Complete(cmd, "plugin", pluginOf19, pluginOf110)
	flags.BoolVar(&in.showDiff, "diff", false, "print a unified diff instead of the domain")
	cli.AddOnlyFile(flags, &in.output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runCall(cmd, p, in) }
	return cmd
}

// runCall calls a hook and writes the domain that it returns.
func runCall(cmd *cobra.Command, p *cli.Program, in *callFlags) error {
	if in.socket == "" {
		return cli.Failed("hook-sidecar serve --socket-dir DIR makes one, virt-launcher's are in "+
			socketDirectory, errors.New("missing flag --socket"))
	}

	if in.plugin != "" && in.plugin != pluginOf19 && in.plugin != pluginOf110 {
		return cli.Failed(cli.SeeHelp(cmd),
			fmt.Errorf("invalid --plugin %q: must be %s or %s", in.plugin, pluginOf19,
				pluginOf110))
	}

	file, err := in.domain()
	if err != nil {
		return err
	}

	before, err := readDomain(p, file, in.vmi)
	if err != nil {
		return err
	}

	vmi, err := readVMIJSON(p, in.vmi)
	if err != nil {
		return err
	}

	after, err := callHook(cmd.Context(), p, in.socket, in.plugin, before.XML, vmi)
	if err != nil {
		return callFailure(err, in.plugin)
	}

	return writeDomain(p, in.output, in.showDiff, before.XML, after)
}

// The versions of KubeVirt between which the call of a structured plugin changed its name.
const (
	pluginOf19  = "1.9"
	pluginOf110 = "1.10"
)

// callHook calls a hook as virt-launcher does, and says how long each call took.
func callHook(
	ctx context.Context, p *cli.Program, socket, plugin string, domain, vmi []byte,
) (changed []byte, err error) {
	client, err := hooks.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, client.Close()) }()
	start := time.Now()
	answered := func(call string) {
		p.Say("%s answered in %.1f ms", call, float64(time.Since(start).Microseconds())/1000)
	}

	if plugin != "" {
		call, name := client.MutateDomain, "MutateDomain"
		if plugin == pluginOf110 {
			call, name = client.GuestDefinition, "GuestDefinition"
		}

		if changed, err = call(ctx, hooks.Boot, domain, vmi); err == nil {
			answered(name)
		}

		return changed, err
	}

	info, err := client.Info(ctx)
	if err != nil {
		return nil, err
	}

	answered(fmt.Sprintf("Info of %s with %s for %s", info.Name, strings.Join(info.Versions, ", "),
		strings.Join(info.HookPoints, ", ")))
	version, err := info.Version()
	if err != nil {
		return nil, err
	}

	start = time.Now()
	if changed, err = client.OnDefineDomain(ctx, version, domain, vmi); err == nil {
		answered("OnDefineDomain " + version + " of " + info.Name)
	}

	return changed, err
}

func callFailure(err error, plugin string) error {
	switch code := status.Code(err); {
	case code == codes.FailedPrecondition:
		return cli.Refused("the hook is strict; explain shows every device", err)
	case code == codes.Unimplemented && plugin != "":
		other := pluginOf19
		if plugin == pluginOf19 {
			other = pluginOf110
		}
		return cli.Failed("this socket serves no structured plugin of KubeVirt "+plugin+
			"; call one of "+other+" with --plugin="+other+", a hook without --plugin", err)

	case code == codes.Unimplemented:
		return cli.Failed("this socket serves no hook; call a structured plugin with --plugin", err)
	}

	return err
}
