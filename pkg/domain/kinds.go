package domain

// kinds lists all kinds of Fragment. Apply inserts them in this order where they go to one place.
var kinds = []kind{iommuKind, firmwareKind, optionKind, cliqueKind, portKind}

// Check returns an error for a fragment of the hook that has no effect on what it was written
// for, though the bytes are as planned.
func (d *Domain) Check() error {
	for _, k := range kinds {
		if k.check == nil {
			continue
		}

		if err := k.check(d); err != nil {
			return err
		}
	}

	return nil
}
