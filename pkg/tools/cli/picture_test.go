package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/test/expect"
)

// An alias with what a terminal obeys (U+009B begins its commands, U+202E turns text
// around) is harmless in every format that a terminal may show.
func TestPicturesAreHarmless(t *testing.T) {
	m, request := inputs(t, dgx, hgx)
	request.Domain = bytes.Replace(request.Domain, []byte("ua-gpu-gpu1"),
		[]byte("ua-\u009b31mgpu\u202e"), 1)
	vm := m.Read(request)
	for _, format := range []string{cli.Text, cli.SVG} {
		var b bytes.Buffer
		program := cli.Program{Streams: cli.Streams{Out: &b}}
		e := cli.Explanation{Output: cli.Output{Format: format}}
		expect.NoError(t, program.Explain(e, vm, vm.Current(), false))
		if text := b.String(); strings.ContainsAny(text, "\u009b\u202e") ||
			!strings.Contains(text, "ua-?31mgpu?") {
			t.Errorf("%s shows the alias as it is, or not at all", format)
		}
	}
}
