// Command echo serves a hook that returns each domain as it came, on the socket
// that is its argument.
package main

import (
	"fmt"
	"os"

	"hook-sidecar/test/speed"
)

func main() {
	fmt.Fprintln(os.Stderr, speed.ServeEcho(os.Args[1]))
	os.Exit(1)
}
