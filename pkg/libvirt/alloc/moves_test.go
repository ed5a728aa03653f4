package alloc_test

import (
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
)

// TestMovesBetweenRootBuses: a NIC that goes from slot 1 of a user's expander bus to slot 1 of the
// root bus moves, though the slots are the same.
func TestMovesBetweenRootBuses(t *testing.T) {
	port := func(index, bus int) domain.Controller {
		return domain.Controller{
			Index: index, Model: domain.RootPort,
			Address: &domain.GuestAddress{Bus: bus, Slot: 1},
		}
	}

	guest := func(nic int) libvirt.Guest {
		return libvirt.Guest{
			Domain: &domain.Domain{Controllers: []domain.Controller{
				{Index: 1, Model: domain.ExpanderBus, Address: &domain.GuestAddress{Slot: 3}},
				port(2, 0), port(3, 1),
			}},
			Devices: []libvirt.Endpoint{{Device: domain.Device{
				Element: "interface", Alias: "nic", Address: &domain.GuestAddress{Bus: nic},
			}}},
		}
	}

	moves := alloc.Moves(guest(3), guest(2))
	if want := "nic from pci.1/01.0/00.0 to 01.0/00.0"; len(moves) != 1 ||
		moves[0].String() != want {
		t.Errorf("moves are %v, want %q", moves, want)
	}

	if moves := alloc.Moves(guest(3), guest(3)); len(moves) > 0 {
		t.Errorf("a guest that stays has moves: %v", moves)
	}
}
