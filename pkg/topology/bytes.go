package topology

import "fmt"

// BytesNeeded formats a number of bytes with a binary unit and at most one
// decimal. It rounds up, so that a need never looks smaller than it is.
func BytesNeeded(bytes uint64) string {
	size, unit := binaryUnit(bytes)
	// The remainder is less than 2^60, so ten times it fits.
	whole, tenths := bytes/size, (bytes%size*10+size-1)/size
	return decimal(whole+tenths/10, tenths%10, unit)
}

// BytesThere formats a number of bytes as BytesNeeded does, but rounds down, so
// that what is available never looks larger than it is.
func BytesThere(bytes uint64) string {
	size, unit := binaryUnit(bytes)
	return decimal(bytes/size, bytes%size*10/size, unit)
}

// binaryUnit returns the largest unit that is not larger than bytes.
func binaryUnit(bytes uint64) (size uint64, name string) {
	size, name = 1, "bytes"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if bytes>>10 < size {
			break
		}
		size, name = size<<10, larger
	}
	return size, name
}

func decimal(whole, tenths uint64, unit string) string {
	if tenths == 0 {
		return fmt.Sprintf("%d %s", whole, unit)
	}
	return fmt.Sprintf("%d.%d %s", whole, tenths, unit)
}
