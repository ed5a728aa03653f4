// Package schema makes the JSON Schemas of docs/schema from Go types, and holds outputs to them.
package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/cluster/fit"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// Check compares the schema of a type with a file, which update rewrites, and outputs with the
// schema. The file allows fields that a later version adds; an output has none that the type has
// not.
func Check[T any](t *testing.T, file, title string, update bool, outputs ...[]byte) {
	t.Helper()
	text := func() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }
	strict, err := jsonschema.For[T](
		&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[topology.DeviceID](): text(),
			reflect.TypeFor[topology.Address]():  text(),
			reflect.TypeFor[topology.PathType](): text(),
			reflect.TypeFor[fit.PathCounts](): {Type: "object", AdditionalProperties: &jsonschema.Schema{
				Type: "integer",
			}},
			reflect.TypeFor[report.PathTypes](): {Type: "array", Items: &jsonschema.Schema{
				Type: "array", Items: text(),
			}},
		}})

	expect.NoError(t, err)
	resolved, err := strict.Resolve(nil)
	expect.NoError(t, err)

	for _, output := range outputs {
		var value any
		expect.NoError(t, json.Unmarshal(output, &value))
		if err := resolved.Validate(value); err != nil {
			t.Errorf("%s: %v\n%s", file, err, output)
		}
	}

	strict.Schema, strict.Title = "https://json-schema.org/draft/2020-12/schema", title
	data, err := json.MarshalIndent(strict, "", "  ")
	expect.NoError(t, err)
	data = bytes.ReplaceAll(append(data, '\n'), []byte(`"additionalProperties": false`),
		[]byte(`"additionalProperties": true`))
	if update {
		expect.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		expect.NoError(t, os.WriteFile(file, data, 0o644))
		return
	}

	expect.Same(t, string(expect.File(t, file)), string(data),
		"%s is not what the code says (-file +code), rewrite it with -update", file)
}
