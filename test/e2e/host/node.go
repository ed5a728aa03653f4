//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

// runNode makes this machine a node of the cluster of hook-sidecar/test/cluster, until it is
// stopped.
func runNode() error {
	// Looking costs more where a hundred processes run.
	go holdInnerMachines(time.Second)
	node := exec.Command("/bin/bash", lab+"/node.sh", "node")
	node.Stdout, node.Stderr = os.Stdout, os.Stderr
	if err := node.Run(); err != nil {
		return fmt.Errorf("node.sh: %w", err)
	}

	logLine("kubelet started")

	// A machine that prints nothing is lost.
	for range time.Tick(30 * time.Second) {
		logLine("load", read("/proc/loadavg"))
	}

	return nil
}
