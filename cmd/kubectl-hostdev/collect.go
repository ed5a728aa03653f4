package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/cluster/collect"
	"hook-sidecar/pkg/words"
)

// collectFlags are the flags of collect.
type collectFlags struct{ file, directory string }

func (a *app) newCollect() *cobra.Command {
	var flags collectFlags
	cmd := &cobra.Command{
		Use:   "collect VM... [flags]",
		Short: "Collect everything about a VM in one archive, without secrets",
		Long: `collect writes one archive about VMs, which why, explain, doctor and fit read with -f:
the VM, its VMI, pods, volumes, migrations and events; nodes, claims and slices; KubeVirt's
objects and the hook's; the logs of the VM's pods, now and before, and what virt-handler and
virt-controller log about the VM; the domain, the node's devices as snapshot prints
them, and versions. Of other pods it has what they request of their nodes.

It removes secrets before it writes: values of variables and of annotations, arguments,
cloud-init data, headers, tokens, passwords. It does not read Secrets or what the guest
prints on its console. collected.yaml in the archive says what was removed, and what
could not be read and why; a missing right loses nothing else.

It needs the ClusterRole hostdev-collect:
` + reasons.Page("manifests/kubectl/clusterrole.yaml") + `

` + exitStatus,
		Example: `  kubectl hostdev collect dgx -n ml
  kubectl hostdev why dgx -f hostdev-ml_dgx.tar.gz`,
		Args: someVMs,
	}

	cmd.Flags().StringVar(&flags.file, "output-file", "",
		"write to this file; - is standard output (default: hostdev-NAMESPACE_VM.tar.gz)")
	cmd.Flags().StringVar(&flags.directory, "directory", "",
		"write files to this new directory instead")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.file != "" && flags.directory != "" {
			return cli.Failed("leave out one of them",
				errors.New("--output-file cannot be combined with --directory"))
		}
		return a.collect(cmd.Context(), args, flags)
	}

	cmd.ValidArgsFunction = a.completeVMs
	return cmd
}

// someVMs checks that a command has the name of a VM, or several.
func someVMs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return cli.Failed(cli.SeeHelp(cmd), errors.New("no arguments, want the names of VMs"))
}

func (a *app) collect(ctx context.Context, arguments []string, flags collectFlags) error {
	client, namespace, err := a.connect()
	if err != nil {
		return err
	}

	var names []types.NamespacedName
	for _, argument := range arguments {
		name, err := vmName(namespace, argument)
		if err != nil {
			return err
		}
		names = append(names, name)
	}

	switch _, err := os.Stat(flags.directory); {
	case flags.directory == "" || errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("write %s: %w", flags.directory, host.WithoutPath(err))
	default:
		return cli.Failed("name a new one", fmt.Errorf("write %s: it exists", flags.directory))
	}

	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	c := collect.Collector{Client: client, Tool: a.Version(), Progress: a.Progress}
	collected, err := c.Collect(limited, names...)
	a.Progress("")
	if err != nil {
		return err
	}

	for _, gap := range collected.Unread {
		a.Say("warning: not read: %s", gap.Why)
	}

	// As KubeVirt names the domain: VMs of two namespaces have two files.
	name := "hostdev-" + names[0].Namespace + "_" + names[0].Name
	return a.writeArchive(ctx, collected, name, flags)
}

// writeArchive writes an archive with a name, and says how large it is.
func (a *app) writeArchive(
	ctx context.Context, collected *archive.Archive, name string, flags collectFlags,
) error {
	to, size := flags.directory, 0
	if to != "" {
		var err error
		if size, err = a.writeDirectory(ctx, collected, to); err != nil {
			return err
		}
	} else {
		var b bytes.Buffer
		if err := collected.Pack(&b, name); err != nil {
			return err
		}

		size, to = b.Len(), flags.file
		if to == "" {
			to = name + ".tar.gz"
		}

		if err := a.Write(to, b.Bytes()); err != nil {
			return err
		}
	}

	removed := 0
	for _, r := range collected.Removed {
		removed += r.Count
	}

	if to == "-" {
		to = "standard output"
	}

	a.Say("wrote %s: %s, %s; removed: %s; not read: %s", to, words.BytesNeeded(uint64(size)),
		words.Counted(len(collected.Files)+1, "file"), words.Counted(removed, "value"),
		words.Counted(len(collected.Unread), "part"))

	return nil
}

// writeDirectory writes an archive's files in a new directory, whose size it returns. If it cannot
// write all, or the user stops it, it leaves none.
func (a *app) writeDirectory(
	ctx context.Context, collected *archive.Archive, to string,
) (size int, err error) {
	files, err := collected.All()
	if err != nil {
		return 0, err
	}

	err = os.MkdirAll(filepath.Dir(to), 0o755)
	if err == nil {
		err = os.Mkdir(to, 0o755)
	}

	if err != nil {
		return 0, fmt.Errorf("write %s: %w", to, host.WithoutPath(err))
	}

	for _, f := range files {
		size += len(f.Data)
		err := context.Cause(ctx)
		if err == nil {
			err = a.writeIn(to, f)
		} else {
			err = fmt.Errorf("write %s: interrupted: %w", to, err)
		}

		if err != nil {
			return 0, errors.Join(err, os.RemoveAll(to))
		}
	}

	return size, nil
}

// writeIn writes a file of an archive in a directory.
func (a *app) writeIn(directory string, f archive.File) error {
	name := filepath.Join(directory, filepath.FromSlash(f.Name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return a.Write(name, f.Data)
}
