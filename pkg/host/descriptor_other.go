//go:build !linux

package host

import "errors"

// openDescriptor fails: only on Linux directories are kept open.
func openDescriptor(string) (opener, error) { return nil, errors.ErrUnsupported }
