package topology

import "fmt"

// BytesNeeded writes a number of bytes with a binary unit and at most one
// decimal, rounded up: what is needed never looks like less than it is.
func BytesNeeded(bytes uint64) string {
	size, unit := binaryUnit(bytes)
	// The remainder is below 2^60, so that ten times it fits.
	whole, tenths := bytes/size, (bytes%size*10+size-1)/size
	return decimal(whole+tenths/10, tenths%10, unit)
}

// BytesThere writes a number of bytes as BytesNeeded does, rounded down: what is
// there never looks like more than it is, nor like enough when it is not.
func BytesThere(bytes uint64) string {
	size, unit := binaryUnit(bytes)
	return decimal(bytes/size, bytes%size*10/size, unit)
}

// binaryUnit is the largest unit that is not larger than bytes.
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
