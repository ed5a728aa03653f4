package host

import (
	"path"
	"strconv"
)

// iommuClass lists the IOMMUs (kernel Documentation/ABI/testing/sysfs-class-iommu).
const iommuClass = "class/iommu"

// answersATS reports whether all IOMMUs answer devices that ask for translations (ATS); nil where
// none of them says so. Of Intel's bit 2 of the extended capabilities does (Linux
// drivers/iommu/intel/iommu.h, ecap_dev_iotlb_support), of AMD's bit 24 of the capability's header
// (drivers/iommu/amd/amd_iommu_types.h, IOMMU_CAP_IOTLB).
func (r *hostReader) answersATS() *bool {
	const intelBit, amdBit = 2, 24
	var all *bool
	for _, name := range r.entries(iommuClass) {
		dir, _ := r.deviceDir(path.Join(iommuClass, name))
		if dir == "" {
			continue
		}

		answers, isKnown := r.bit(dir+"/intel-iommu/ecap", intelBit)
		if !isKnown {
			answers, isKnown = r.bit(dir+"/amd-iommu/cap", amdBit)
		}

		if isKnown {
			all = new(answers && (all == nil || *all))
		}
	}

	return all
}

// bit returns a bit of a file with a hexadecimal number.
func (r *hostReader) bit(file string, bit int) (isSet, isKnown bool) {
	number, err := strconv.ParseUint(r.file(file), 16, 64)
	return number>>bit&1 == 1, err == nil
}
