//go:build !linux

package host

import "errors"

// dirOpener fails: only on Linux directories are kept open.
func dirOpener(string) func(string) (directory, error) {
	return func(string) (directory, error) { return nil, errors.ErrUnsupported }
}
