// Package why names the cause of a VM that does not start. Objects of the API server and
// logs become the Evidence of one VM (objects.go), and the table (causes.yaml) says which of
// its lines name a cause (evidence.go). Objects and logs hold secrets: no value of an
// environment variable and no cloud-init data is in what the package returns.
package why

import (
	_ "embed"
	"strings"

	"sigs.k8s.io/yaml"
)

// table begins with what its columns are.
//
//go:embed causes.yaml
var table []byte

// Cause is a row of the table.
type Cause struct {
	Name     string   `json:"name"`
	What     string   `json:"what"`
	Messages []string `json:"messages"`
	Remedy   string   `json:"remedy"`
	Check    string   `json:"check"`
	InGuest  bool     `json:"inGuest"`
	Seen     []string `json:"seen"`
}

// Causes returns the table.
func Causes() []Cause {
	var all []Cause
	if err := yaml.UnmarshalStrict(table, &all); err != nil {
		panic("causes.yaml: " + err.Error()) // it is part of the program
	}
	return all
}

// match returns where a text has one of the cause's messages, or -1.
func (c Cause) match(text string) int {
	for _, message := range c.Messages {
		parts := strings.Split(message, "*")
		first, rest := strings.Index(text, parts[0]), text
		for _, part := range parts {
			var found bool
			if _, rest, found = strings.Cut(rest, part); !found {
				first = -1
			}
		}
		if first >= 0 {
			return first
		}
	}
	return -1
}
