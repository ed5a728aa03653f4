package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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

	cmd     *cobra.Command // whose flags set both
	formats []string
}

// Add adds the flags of both programs, which are kubectl's: --output is the format, and
// --output-file the file. --format, the format's name of before, is accepted.
func (o *Output) Add(cmd *cobra.Command, formats ...string) {
	AlsoNamed(cmd.Flags(), "format", "output")
	o.cmd, o.formats = cmd, formats
	cmd.Flags().StringVarP(&o.Format, "output", "o", "",
		"one of "+strings.Join(formats, ", ")+
			"\n(default: by the ending of the output file's name, else text)")
	Complete(cmd, "output", formats...)
	AddOutputFile(cmd.Flags(), &o.File)
}

// Check sets the format that the file's name says, unless a flag sets it, and checks that it is
// one of the command's, or of fewer.
func (o *Output) Check(formats ...string) error {
	if formats == nil {
		formats = o.formats
	}

	if o.namesFile() {
		fmt.Fprintf(o.cmd.ErrOrStderr(), "warning: --output %s: it names the format; write "+
			"--output-file %[1]s\n", words.Abridge(o.Format))
		o.Format, o.File = "", o.Format
	}

	ending := strings.ToLower(filepath.Ext(o.File))
	if o.Format == "" {
		o.Format = formatOf(ending)
	}

	err := fmt.Errorf("invalid --output %q: must be one of %s", words.Abridge(o.Format),
		strings.Join(formats, ", "))
	switch {
	case slices.Contains(formats, o.Format):
		return nil
	case o.Format == "":
		return Failed("--output names the format, such as text; rsvg-convert makes other "+
			"pictures of svg",
			fmt.Errorf("no format is known for a file that ends in %q", words.Abridge(ending)))

	case strings.ContainsAny(o.Format, "./") && !strings.Contains(o.Format, "="): // jsonpath=
		return Failed("name the file with --output-file, or redirect standard output", err)
	}

	return Failed("", err)
}

// namesFile reports whether --output has the name of a file, as it had in hook-sidecar before.
func (o *Output) namesFile() bool {
	ending := strings.ToLower(filepath.Ext(o.Format))
	return ending != "" && formatOf(ending) != "" && o.File == "" && !strings.Contains(o.Format, "=")
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
