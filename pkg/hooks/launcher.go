package hooks

import (
	"context"
	"net"
)

// watchLauncher ends the server when virt-launcher ends without Shutdown, as it does when
// it never saw its domain (KubeVirt cmd/virt-launcher/virt-launcher.go): a sidecar that
// runs on would keep the pod and its devices.
//
// virt-launcher connects for each call only, so its process is watched. It is the first
// from another container that calls Info: nothing else in the pod has the socket's
// directory.
//
// Nothing shows a virt-launcher that ended before, and no time without a call is long enough to
// end the server: compute may start hours later, when its image is there at last.
func (s *Server) watchLauncher(ctx context.Context) {
	c := connectionOf(ctx)
	if c == nil || s.launcherSeen.Load() {
		return
	}

	socket, ok := c.Conn.(*net.UnixConn)
	if !ok {
		return
	}

	process, err := outsidePeer(socket)
	if err != nil || process == nil {
		return // then Shutdown or a signal ends the server
	}

	if s.launcherSeen.Swap(true) {
		_ = process.Close()
		return
	}

	s.launcher.Go(func() {
		if err := waitReadable(process); err == nil {
			s.config.Logger.Info("virt-launcher has ended")
			s.shutdown()
		}
	})

	// The end of the server ends the wait.
	context.AfterFunc(s.ctx, func() { _ = process.Close() })
}
