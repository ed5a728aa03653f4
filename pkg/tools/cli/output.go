package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hook-sidecar/pkg/words"
)

// The formats of output. kubectl has Wide, YAML and Name, too.
const (
	Text = "text"
	Wide = "wide"
	JSON = "json"
	YAML = "yaml"
	Name = "name"
	SVG  = "svg"
	NCCL = "nccl"
)

// Output says in which format a command writes, and to which file.
type Output struct {
	Format string // before Check "" where no flag sets it
	File   string // "" for standard output

	flag    string // sets the format
	formats []string
}

// Add adds the flags of hook-sidecar: --format, and --output, which names a file.
func (o *Output) Add(cmd *cobra.Command, formats ...string) {
	o.addFormat(cmd, "format", "", formats)
	AddOutput(cmd.Flags(), &o.File)
}

// AddAsKubectl adds the flags of kubectl: --output, which is the format, and --output-file.
// --format, the name of --output in version 0.9, is accepted.
func (o *Output) AddAsKubectl(cmd *cobra.Command, formats ...string) {
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(map[string]string{"format": "output"}[name], name))
	})

	o.addFormat(cmd, "output", "o", formats)
	cmd.Flags().StringVar(&o.File, "output-file", "",
		"write to this file atomically (default: standard output)")
}

func (o *Output) addFormat(cmd *cobra.Command, flag, shorthand string, formats []string) {
	o.flag, o.formats = flag, formats
	cmd.Flags().StringVarP(&o.Format, flag, shorthand, "",
		fmt.Sprintf("one of %s (default: as the output file's name ends, in .json,\n"+
			".yaml, .svg, or .xml for nccl; else text)", strings.Join(formats, ", ")))
	Complete(cmd, flag, formats...)
}

// Check sets the format that the file's name says, unless a flag sets it, and checks that it is
// one of the command's, or of fewer.
func (o *Output) Check(formats ...string) error {
	if formats == nil {
		formats = o.formats
	}

	if o.flag == "format" && slices.Contains(formats, o.File) { // as kubectl's -o
		return Failed(fmt.Sprintf("the format is --format %s; a file of that name is ./%s", o.File,
			o.File), fmt.Errorf("invalid --output %q: it is the name of a format", o.File))
	}

	ending := strings.ToLower(filepath.Ext(o.File))
	if o.Format == "" {
		o.Format = formatOf(ending)
	}

	err := fmt.Errorf("invalid --%s %q: must be one of %s", o.flag, words.Abridge(o.Format),
		strings.Join(formats, ", "))
	switch {
	case slices.Contains(formats, o.Format):
		return nil
	case o.Format == "":
		return Failed(fmt.Sprintf("--%s names the format, such as text; rsvg-convert makes other "+
			"pictures of svg", o.flag),
			fmt.Errorf("no format is known for a file that ends in %q", words.Abridge(ending)))

	case strings.ContainsAny(o.Format, "./") && !strings.Contains(o.Format, "="): // jsonpath=
		return Failed("name the file with --output-file, or redirect standard output", err)
	}

	return Failed("", err)
}

// formatOf returns the format of a file by the ending of its name, "" if no format has it.
func formatOf(ending string) string {
	switch ending {
	case "", ".txt", ".log":
		return Text
	case ".json":
		return JSON
	case ".yaml":
		return YAML
	case ".svg":
		return SVG
	case ".xml":
		return NCCL
	default:
		return ""
	}
}
