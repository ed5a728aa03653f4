package cloudinit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Answer returns KubeVirt's CloudInitData, as JSON, with merged user data. userData is that of the
// VMI, for bytes that JSON has lost because they are not text. Without a change the result is the
// data itself.
func Answer(data, userData []byte) ([]byte, error) {
	const userDataField = "UserData" // the only one that changes (pkg/cloud-init/cloud-init.go)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, errors.New("parse the cloud-init data: not a JSON object")
	}
	if fields == nil {
		return nil, errors.New("the VM has no cloud-init data")
	}

	var text string
	if field, ok := fields[userDataField]; ok && json.Unmarshal(field, &text) != nil {
		return nil, fmt.Errorf("parse the cloud-init data: %s is not a string", userDataField)
	}

	given := []byte(text)
	if strings.ContainsRune(text, utf8.RuneError) && len(userData) > 0 {
		given = userData
	}

	merged, err := Merge(given)
	switch {
	case err != nil:
		return nil, err
	case string(merged) == text:
		return data, nil
	case !utf8.Valid(merged):
		return nil, errors.New("the user data is not UTF-8, which JSON cannot hold")
	}

	var changed []byte
	if fields[userDataField], err = json.Marshal(string(merged)); err == nil {
		changed, err = json.Marshal(fields)
	}

	if err != nil {
		return nil, fmt.Errorf("write the cloud-init data: %w", err)
	}

	return changed, nil
}
