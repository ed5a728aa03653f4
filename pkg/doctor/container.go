package doctor

import (
	"path"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

func containerChecks() []Check {
	return []Check{
		{"socket-folder", socketFolder},
		{"socket-name", socketName},
		{"container-memory", containerMemory},
		{"container-cpu", containerCPU},
	}
}

// socketFolder asks whether the folder of the hooks' sockets can be used, and
// holds nothing that virt-launcher would dial in vain: it dials every file
// there and does not start the VM before each has answered (KubeVirt
// pkg/hooks/manager.go, Collect).
func socketFolder(in Inputs) []finding {
	s := in.Sockets
	if s == nil {
		return nil
	}
	switch {
	case s.Missing:
		return note("run doctor in the sidecar, or name the folder with --socket-dir", "there is no %s here", s.Folder)
	case s.Problem != "":
		return fail("mount the emptyDir of the sidecars there, for the user that the container runs as", "%s", s.Problem)
	}
	var found []finding
	for _, f := range s.Files {
		switch {
		case !f.Socket:
			found = append(found, fail("remove it: virt-launcher dials every file there and waits", "%s in %s is no socket", f.Path, s.Folder)...)
		case !f.Answers:
			found = append(found, warn("remove it, or look why its sidecar does not answer", "nobody answers on the socket %s in %s", f.Path, s.Folder)...)
		}
	}
	return orPass(found, "%s with %s", s.Folder, topology.Counted(len(s.Files), "socket"))
}

// socketName asks whether each socket has a name of its own in the pod: of two
// with one name virt-launcher passes over the second (KubeVirt
// pkg/hooks/manager.go, processedSockets).
func socketName(in Inputs) []finding {
	s := in.Sockets
	if s == nil || s.Missing || s.Problem != "" {
		return nil
	}
	if s.TooLong {
		return fail("shorten --socket-dir", "the path of the socket %s in %s is longer than the 107 bytes of a unix socket", s.Name, s.Folder)
	}
	byName := map[string][]string{}
	for _, f := range s.Files {
		byName[path.Base(f.Path)] = append(byName[path.Base(f.Path)], f.Path)
	}
	var found []finding
	for _, f := range s.Files {
		if same := byName[path.Base(f.Path)]; len(same) > 1 && same[0] == f.Path {
			found = append(found, fail("give each sidecar a socket name of its own; hook-sidecar takes it from CONTAINER_NAME", "%s have one name: virt-launcher calls only the first",
				strings.Join(same, " and "))...)
		}
	}
	if s.Name == "" {
		return append(found, note("KubeVirt sets CONTAINER_NAME since 1.6", "CONTAINER_NAME is not set: the socket's name gets a random part")...)
	}
	there := slices.ContainsFunc(s.Files, func(f SocketFile) bool { return f.Path == s.Name && f.Answers })
	if there {
		return orPass(found, "%s, served already", s.Name)
	}
	return orPass(found, "%s is free", s.Name)
}

// What a server takes. A call with 16 devices peaks at 22 MiB, the pages of the
// program included. Until it has answered Info the server computes some 30 ms;
// throttled to 50 thousandths of a CPU these take 0.6 of the second that
// virt-launcher waits (KubeVirt pkg/hooks/manager.go). KubeVirt gives the
// sidecar of a VM with dedicated CPUs 64,000,000 bytes and 200 thousandths
// (pkg/virt-controller/services/renderresources.go).
const (
	leastMemory  = 24 << 20
	enoughMemory = 48 << 20
	leastCPU     = 50
	enoughCPU    = 100
)

const limitsHint = "raise it with supportContainerResources of type sidecar in the KubeVirt CR"

func containerMemory(in Inputs) []finding {
	switch {
	case in.Limits == nil:
		return nil
	case in.Limits.MemoryBytes == 0:
		return pass("no limit")
	case in.Limits.MemoryBytes < leastMemory:
		return fail(limitsHint, "the limit is %s, the server takes up to %s", topology.BytesThere(in.Limits.MemoryBytes), topology.BytesNeeded(leastMemory))
	case in.Limits.MemoryBytes < enoughMemory:
		return warn(limitsHint, "the limit is %s; %s are enough for domains of every size", topology.BytesThere(in.Limits.MemoryBytes), topology.BytesNeeded(enoughMemory))
	}
	return pass("the limit is %s", topology.BytesThere(in.Limits.MemoryBytes))
}

// containerCPU asks whether the server is scheduled in time: virt-launcher
// waits one second for Info.
func containerCPU(in Inputs) []finding {
	switch {
	case in.Limits == nil:
		return nil
	case in.Limits.MilliCPU == 0:
		return pass("no limit")
	case in.Limits.MilliCPU < leastCPU:
		return fail(limitsHint, "the limit is %dm; throttled so, the server may not answer Info within its second", in.Limits.MilliCPU)
	case in.Limits.MilliCPU < enoughCPU:
		return warn(limitsHint, "the limit is %dm; with %dm calls are not throttled", in.Limits.MilliCPU, enoughCPU)
	}
	return pass("the limit is %dm", in.Limits.MilliCPU)
}
