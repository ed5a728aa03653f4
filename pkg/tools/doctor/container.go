package doctor

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"hook-sidecar/pkg/words"
)

// socketDirectory checks whether the directory of the hooks' sockets can be used:
// virt-launcher dials every file there, and starts the VM only when each has answered
// (KubeVirt pkg/hooks/manager.go, Collect).
func socketDirectory(in Inputs) []Result {
	s := in.Sockets
	switch {
	case s.Missing:
		return note("run doctor in the sidecar, or pass its directory with --socket-dir",
			"%s does not exist here", s.Dir)
	case s.Problem != "":
		return fail("mount the sidecars' emptyDir there, writable for the container's user", "%s",
			s.Problem)
	}

	var found []Result
	for _, f := range s.Files {
		switch {
		case !f.Socket:
			found = append(found,
				fail("remove it: virt-launcher dials every file there and waits",
					"%s in %s is not a socket", f.Path, s.Dir)...)
		case !f.Answers:
			found = append(found,
				warn("find out why its sidecar does not answer; remove it if there is none",
					"no process answers on the socket %s in %s", f.Path, s.Dir)...)
		}
	}

	return orPass(found, "%s with %s", s.Dir, words.Counted(len(s.Files), "socket"))
}

// socketName checks whether each socket's name is unique in the pod: virt-launcher ignores
// the second of two (KubeVirt pkg/hooks/manager.go, processedSockets).
func socketName(in Inputs) []Result {
	s := in.Sockets
	switch {
	case s.Missing || s.Problem != "":
		return nil
	case s.TooLong:
		return fail("shorten --socket-dir", "the path of %s in %s is too long for a unix socket",
			s.Name, s.Dir)
	}

	byName := map[string][]string{}
	for _, f := range s.Files {
		byName[path.Base(f.Path)] = append(byName[path.Base(f.Path)], f.Path)
	}

	var found []Result
	for _, f := range s.Files {
		if same := byName[path.Base(f.Path)]; len(same) > 1 && same[0] == f.Path {
			found = append(found,
				fail("give each sidecar a socket name of its own; hook-sidecar takes it from "+
					"CONTAINER_NAME", "%s have the same name: virt-launcher calls only the first",
					strings.Join(same, " and "))...)
		}
	}

	isServed := func(f SocketFile) bool { return f.Path == s.Name && f.Answers }
	switch {
	case s.Name == "":
		return append(found,
			note("KubeVirt sets CONTAINER_NAME since 1.6",
				"CONTAINER_NAME is not set: the socket's name gets a random part")...)
	case slices.ContainsFunc(s.Files, isServed):
		return orPass(found, "%s is already served", s.Name)
	}

	return orPass(found, "%s is free", s.Name)
}

// What a server needs. A call with 16 devices peaks at 22 MiB with the program's pages.
// Until it has answered Info it computes some 30 ms, with 50m of CPU 0.6 of the second that
// virt-launcher waits (KubeVirt pkg/hooks/manager.go). KubeVirt gives the sidecar of a VM
// with dedicated CPUs 64,000,000 bytes and 200m (pkg/virt-controller/services/renderresources.go).
const (
	minMemory    = 24 << 20
	enoughMemory = 48 << 20
	minCPU       = 50
	enoughCPU    = 100
)

func containerMemory(in Inputs) []Result {
	return judgeLimit(in.Limits.MemoryBytes, minMemory, enoughMemory, words.BytesThere)
}

// containerCPU checks whether the server is scheduled in time to answer Info.
func containerCPU(in Inputs) []Result {
	return judgeLimit(in.Limits.MilliCPU, minCPU, enoughCPU, func(n int) string {
		return fmt.Sprintf("%dm", n)
	})
}

func judgeLimit[N int | uint64](limit, needed, enough N, format func(N) string) []Result {
	const hint = "raise it with supportContainerResources of type sidecar in the KubeVirt CR"
	switch {
	case limit == 0:
		return pass("no limit")
	case limit < needed:
		return fail(hint, "the limit is %s, the server needs up to %s", format(limit),
			format(needed))

	case limit < enough:
		return warn(hint, "the limit is %s, %s are always enough", format(limit), format(enough))
	}

	return pass("the limit is %s", format(limit))
}
