package kubevirt

import (
	"path"
	"strconv"
	"strings"
)

// LauncherRelease returns the minor number of the KubeVirt release 1.x that the VM's virt-launcher
// is of, by its image's tag v1.7.2. Distributions build virt-launcher with another QEMU and tag it
// otherwise, so any other tag, a digest or another name of the image says nothing; neither does the
// image in a migration, which is the source's.
func (v *VMI) LauncherRelease() (minor int, isKnown bool) {
	if v == nil || v.MigrationInProgress {
		return 0, false
	}

	name, tag, _ := strings.Cut(path.Base(v.LauncherImage), ":")
	numbers := strings.Split(strings.TrimPrefix(tag, "v1."), ".")
	if name != "virt-launcher" || !strings.HasPrefix(tag, "v1.") || len(numbers) != 2 {
		return 0, false
	}

	release, err := strconv.ParseUint(numbers[0], 10, 16)
	_, patchErr := strconv.ParseUint(numbers[1], 10, 16)
	if err != nil || patchErr != nil {
		return 0, false
	}

	return int(release), true
}
