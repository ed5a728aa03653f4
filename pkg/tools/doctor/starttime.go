package doctor

import "strings"

// longStart is how many seconds a start takes before a user asks whether it hangs.
const longStart = 30

// startTime estimates how long a start allocates and maps memory, and maps BARs.
func startTime(in Inputs) []Result {
	e := in.Mapping()
	found := strings.Join(e.Text(), "; ")
	switch {
	case found == "":
		return pass("little is mapped at the start")
	case e.Seconds() < longStart:
		return pass("%s", found)
	}

	return note(e.Cure, "%s", found)
}
