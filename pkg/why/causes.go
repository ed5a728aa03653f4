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

// Address returns the address of a place in the column Seen. GitHub redirects that of an
// issue to a pull request.
func Address(seen string) string {
	if repository, number, isThread := strings.Cut(seen, "#"); isThread {
		return "https://github.com/" + repository + "/issues/" + number
	}
	return seen
}

// match returns where a text has one of the cause's messages, or -1.
func (c Cause) match(text string) int {
	for _, message := range c.Messages {
		if at := find(text, strings.Split(message, "*")); at >= 0 {
			return at
		}
	}
	return -1
}

// find returns where a text has all parts of a message in their order, or -1.
func find(text string, parts []string) int {
	first := strings.Index(text, parts[0])
	for rest := text; len(parts) > 0; parts = parts[1:] {
		at := strings.Index(rest, parts[0])
		if at < 0 {
			return -1
		}
		rest = rest[at+len(parts[0]):]
	}
	return first
}
