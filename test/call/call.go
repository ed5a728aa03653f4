// Package call is a program that calls a hook on its socket as virt-launcher does: it asks for the
// versions, calls the newest that both have, and prints the domain that it gets. Standard error has
// what the hook offers and how long each call took.
package call

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
)

// The exit statuses.
const (
	failed  = 2
	refused = 3 // by a strict hook
)

// The versions of KubeVirt between which the call of a structured plugin changed its name.
const (
	PluginOf19  = "1.9"
	PluginOf110 = "1.10"
)

// Main runs the program with the arguments of the process:
//
//	call --socket FILE [--plugin[=1.10]] [-d FILE] [--vmi FILE] [-o FILE]
//
// Without -d the domain is standard input, without -o the answer is on standard output.
func Main() {
	var socket, kubeVirt, domain, vmi, output string
	pflag.StringVar(&socket, "socket", "", "socket of the hook")
	pflag.StringVar(&kubeVirt, "plugin", "", "call a structured plugin as this KubeVirt does")
	pflag.Lookup("plugin").NoOptDefVal = PluginOf19
	pflag.StringVarP(&domain, "domain", "d", "/dev/stdin", "the domain")
	pflag.StringVar(&vmi, "vmi", "/dev/null", "the VMI as JSON")
	pflag.StringVarP(&output, "output", "o", "/dev/stdout", "the answer")
	pflag.Parse()

	err := Run(socket, kubeVirt, domain, vmi, output)
	if err == nil {
		return
	}

	say("%v", err)
	if status.Code(err) == codes.FailedPrecondition {
		os.Exit(refused)
	}
	os.Exit(failed)
}

func say(format string, values ...any) { fmt.Fprintf(os.Stderr, "call: "+format+"\n", values...) }

// Run calls the hook of a socket, or with a version of KubeVirt a structured plugin, with a domain and a
// VMI from files, and writes the answer to a file.
func Run(socket, kubeVirt, domainFile, vmiFile, output string) error {
	domain, err := os.ReadFile(domainFile)
	if err != nil {
		return err
	}

	vmi, err := os.ReadFile(vmiFile)
	if err != nil {
		return err
	}

	ctx := context.Background()
	client, err := hookstest.Connect(ctx, socket)
	if err != nil {
		return err
	}

	var changed []byte
	if kubeVirt == "" {
		changed, err = askHook(ctx, client, domain, vmi)
	} else {
		changed, err = askPlugin(ctx, client, kubeVirt, domain, vmi)
	}

	if err := errors.Join(err, client.Close()); err != nil {
		return err
	}

	file, err := os.Create(output)
	if err != nil {
		return err
	}

	_, err = file.Write(changed)
	return errors.Join(err, file.Close())
}

// askHook calls OnDefineDomain.
func askHook(ctx context.Context, client *hookstest.Client, domain, vmi []byte) ([]byte, error) {
	start := time.Now()
	info, err := client.Info(ctx)
	if err != nil {
		return nil, err
	}

	answered(start, "Info of %s with %s for %s", info.Name, strings.Join(info.Versions, ", "),
		strings.Join(info.HookPoints, ", "))
	version, err := info.Version()
	if err != nil {
		return nil, err
	}

	start = time.Now()
	changed, err := client.OnDefineDomain(ctx, version, domain, vmi)
	if err == nil {
		answered(start, "OnDefineDomain %s of %s", version, info.Name)
	}

	return changed, err
}

// askPlugin calls a structured plugin at a boot, by the name that the call has in this KubeVirt.
func askPlugin(
	ctx context.Context, client *hookstest.Client, kubeVirt string, domain, vmi []byte,
) ([]byte, error) {
	start := time.Now()
	call, name := client.MutateDomain, "MutateDomain"
	if kubeVirt == PluginOf110 {
		call, name = client.GuestDefinition, "GuestDefinition"
	}

	changed, err := call(ctx, hooks.Boot, domain, vmi)
	if err == nil {
		answered(start, "%s", name)
	}

	return changed, err
}

func answered(start time.Time, format string, values ...any) {
	say("%s answered in %.1f ms", fmt.Sprintf(format, values...),
		float64(time.Since(start).Microseconds())/1000)
}
