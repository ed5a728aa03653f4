// Package recorded makes a host of what was recorded of a machine that is not at hand: of
// lstopo's XML, a topology file of NCCL or RCCL, or nvidia-smi topo -m. The host can be planned
// for as one whose /sys was read. What a record does not say is taken as stated in Host's
// comment, and reported.
package recorded
