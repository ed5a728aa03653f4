package fit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/tools/cluster/fit"
	"hook-sidecar/test/expect"
)

// TestExhaustive compares the counts of random fleets with a search that tries every choice of
// devices, in the order in which Kubernetes documents that the scheduler does, and that has no code
// of package fit or of the allocator.
func TestExhaustive(t *testing.T) {
	used := map[string]int{} // what random fleets have, and how often VMs fit
	for seed := range uint64(expect.Count(100, 1000)) {
		w := newWorld(rand.New(rand.NewPCG(seed, 59)))
		o, err := fit.Parse(fit.File{Name: "the fleet", Data: w.objects(t)})
		expect.NoError(t, err)
		shape, err := fit.NewShape(o)
		expect.NoError(t, err)
		answer, err := fit.New(o).Count(t.Context(), shape)
		expect.NoError(t, err)

		for i, n := range answer.Nodes {
			now, empty := w.fits(i, false), w.fits(i, true)
			same := n.Now == now && n.Empty == empty
			if w.hasTwins() { // which of two is tried first, nothing says
				same = n.Now > 0 == (now > 0) && n.Empty > 0 == (empty > 0)
			}

			if !same || (n.Why == "") != (n.Now > 0) {
				t.Errorf("seed %d, node %s: %d fit now, %d when empty, want %d, %d; %s\n%s", seed,
					n.Name, n.Now, n.Empty, now, empty, n.Why, w)
			}

			used[fmt.Sprint("fits ", min(now, 2))]++
		}

		for _, feature := range w.features() {
			used[feature]++
		}
	}

	for _, feature := range strings.Split(allFeatures, ", ") {
		if used[feature] < expect.Count(3, 30) {
			t.Errorf("%d fleets: %s", used[feature], feature)
		}
	}
}

const allFeatures = "counters, taints, allNodes, nodeSelector, perDevice, firstAvailable, All, " +
	"adminAccess, CEL, matchAttribute, lists, capacity, shared, twins, incomplete, fits 0, fits 1, fits 2"

// world is a fleet and a VM. Nodes are numbers.
type world struct {
	labelled    []bool // per node: it has the label that selectors name
	pools       []*wPool
	requests    [][]wRequest // per request of the VM its alternatives
	isAdmin     []bool       // per request
	constraints []wConstraint
	claims      [][]int // requests per claim
}

type wPool struct {
	driver, name string
	node         int // the one that reaches it, or allNodes, withLabel or perDevice
	counters     int // of the pool, 0 for none
	isIncomplete bool
	devices      []*wDevice
}

const (
	allNodes  = -1
	withLabel = -2
	perDevice = -3
)

type wDevice struct {
	name      string
	node      int // of perDevice: a node, or allNodes
	roots     []string
	numa      int // -1 for none
	isBig     bool
	isTainted bool
	consumes  int // of the pool's counters
	capacity  int // 0 for none
	isShared  bool
	address   int // 0 for none

	isUsed       bool
	usedCapacity int
}

type wRequest struct {
	driver    string
	isBig     bool // by CEL
	count     int  // 0 for all
	tolerates bool
	capacity  int // 0 for none
}

type wConstraint struct {
	attribute string
	requests  []int // of one claim
}

func newWorld(r *rand.Rand) *world {
	chance := func(of int) bool { return r.IntN(of) == 0 }
	w := &world{}
	for range 1 + r.IntN(3) {
		w.labelled = append(w.labelled, chance(2))
	}

	for i := range 2 + r.IntN(4) {
		p := &wPool{
			driver: []string{"gpu.x", "nic.x"}[r.IntN(2)], name: fmt.Sprint("p", i),
			node: r.IntN(len(w.labelled)), isIncomplete: chance(12),
		}
		if chance(3) {
			p.node = []int{allNodes, withLabel, perDevice}[r.IntN(3)]
		}
		if chance(4) {
			p.counters = 2 + r.IntN(4)
		}

		isShared := p.counters == 0 && chance(4)
		for j := range 1 + r.IntN(3) {
			p.devices = append(p.devices, w.device(r, p, j, isShared))
		}

		w.pools = append(w.pools, p)
	}

	w.addRequests(r)
	return w
}

// device returns the random device of a number.
func (w *world) device(r *rand.Rand, p *wPool, number int, isShared bool) *wDevice {
	chance := func(of int) bool { return r.IntN(of) == 0 }
	d := &wDevice{
		name: fmt.Sprint("d", number), roots: []string{fmt.Sprint("pci0000:", r.IntN(3), "0")},
		numa: r.IntN(3) - 1, isBig: chance(2), isTainted: chance(5), isShared: isShared,
	}

	switch {
	case chance(6):
		d.roots = nil
	case chance(5):
		d.roots = append(d.roots, "pci0000:40")
	}

	if p.node == perDevice {
		d.node = r.IntN(len(w.labelled)+1) - 1
	}
	if p.counters > 0 {
		d.consumes = r.IntN(3)
	}
	if isShared || chance(3) {
		d.capacity = 2 + r.IntN(6)
	}

	switch {
	case isShared && chance(2):
		d.usedCapacity = 1 + r.IntN(d.capacity)
	case !isShared:
		d.isUsed = chance(4)
	}

	// Two devices that the driver does not tell apart are one function.
	if p.node >= 0 && p.counters == 0 && !isShared && chance(3) {
		d.address = 1 + r.IntN(2)
	}

	return d
}

func (w *world) addRequests(r *rand.Rand) {
	chance := func(of int) bool { return r.IntN(of) == 0 }
	one := func() wRequest {
		q := wRequest{
			driver: []string{"gpu.x", "nic.x"}[r.IntN(2)], isBig: chance(4),
			count: 1 + r.IntN(5)/4, tolerates: chance(2),
		}
		if chance(8) {
			q.count = 0
		}
		if chance(4) {
			q.capacity = 1 + r.IntN(3)
		}

		return q
	}

	var claim []int
	for i := range 1 + r.IntN(3) {
		alternatives := []wRequest{one()}
		if chance(5) {
			alternatives = append(alternatives, one())
		}

		w.requests = append(w.requests, alternatives)
		// without a request that takes something, any number would fit
		w.isAdmin = append(w.isAdmin, i > 0 && len(alternatives) == 1 && chance(6) &&
			!slices.ContainsFunc(w.pools, func(p *wPool) bool { return p.devices[0].isShared }))
		if claim = append(claim, i); chance(3) {
			w.claims, claim = append(w.claims, claim), nil
		}
	}

	if len(claim) > 0 {
		w.claims = append(w.claims, claim)
	}

	for _, claim := range w.claims {
		if chance(2) {
			continue
		}

		c := wConstraint{attribute: []string{"root", "numa"}[r.IntN(2)], requests: claim}
		if chance(3) {
			c.requests = claim[:1]
		}

		w.constraints = append(w.constraints, c)
	}
}

// reaches reports whether a node reaches a device of a pool.
func (w *world) reaches(node int, p *wPool, d *wDevice) bool {
	at := p.node
	if at == perDevice {
		at = d.node
	}
	return at == node || at == allNodes || at == withLabel && w.labelled[node]
}

func (w *world) hasTwins() bool { return slices.Contains(w.features(), "twins") }

// features names what is random and what the world has of it.
func (w *world) features() []string {
	has := map[string]bool{"matchAttribute": len(w.constraints) > 0}
	for _, p := range w.pools {
		addresses := map[int]bool{}
		has["allNodes"] = has["allNodes"] || p.node == allNodes
		has["nodeSelector"] = has["nodeSelector"] || p.node == withLabel
		has["perDevice"] = has["perDevice"] || p.node == perDevice
		has["counters"] = has["counters"] || p.counters > 0
		has["incomplete"] = has["incomplete"] || p.isIncomplete
		for _, d := range p.devices {
			has["taints"] = has["taints"] || d.isTainted
			has["lists"] = has["lists"] || len(d.roots) > 1
			has["shared"] = has["shared"] || d.isShared
		}

		for _, q := range w.pools {
			for _, d := range q.devices {
				if d.address > 0 && q.node == p.node {
					has["twins"] = has["twins"] || addresses[d.address]
					addresses[d.address] = true
				}
			}
		}
	}

	for i, alternatives := range w.requests {
		has["firstAvailable"] = has["firstAvailable"] || len(alternatives) > 1
		has["adminAccess"] = has["adminAccess"] || w.isAdmin[i]
		for _, q := range alternatives {
			has["All"] = has["All"] || q.count == 0
			has["CEL"] = has["CEL"] || q.isBig
			has["capacity"] = has["capacity"] || q.capacity > 0
		}
	}

	maps.DeleteFunc(has, func(_ string, has bool) bool { return !has })
	return slices.Sorted(maps.Keys(has))
}

func (w *world) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "labelled %v, claims %v, admin %v, constraints %v\n", w.labelled, w.claims,
		w.isAdmin, w.constraints)
	for i, alternatives := range w.requests {
		fmt.Fprintf(&b, "request %d: %+v\n", i, alternatives)
	}

	for _, p := range w.pools {
		fmt.Fprintf(&b, "pool %s %s node %d counters %d incomplete %t\n", p.driver, p.name, p.node,
			p.counters, p.isIncomplete)
		for _, d := range p.devices {
			fmt.Fprintf(&b, "  %+v\n", *d)
		}
	}

	return b.String()
}

// place is a device that a search may choose.
type wPlace struct {
	pool   *wPool
	device *wDevice
}

// search tries choices for one VM beside what others have.
type search struct {
	*world
	node     int
	places   []wPlace // in order
	taken    map[*wDevice]bool
	capacity map[*wDevice]int // that is taken of shared devices
	counters map[*wPool]int   // that are taken
	chosen   []wChoice

	// A request for all ends the scheduler's search, also where it is one of several alternatives, if
	// a pool is being published, or if a constraint keeps it from a device.
	isEnded bool
}

type wChoice struct {
	request int
	wRequest
	device  *wDevice
	isAdmin bool
}

// fits counts VMs on a node: each gets the first choice that there is.
func (w *world) fits(node int, isEmpty bool) (times int) {
	s := &search{
		world: w, node: node, taken: map[*wDevice]bool{}, capacity: map[*wDevice]int{},
		counters: map[*wPool]int{},
	}
	sorted := slices.SortedFunc(slices.Values(w.pools), func(a, b *wPool) int {
		return strings.Compare(a.driver+" "+a.name, b.driver+" "+b.name)
	})
	for _, p := range sorted {
		for _, d := range p.devices {
			if w.reaches(node, p, d) {
				s.places = append(s.places, wPlace{p, d})
			}
			if !isEmpty && d.isUsed {
				s.taken[d] = true
				s.counters[p] += d.consumes
			}
			if !isEmpty {
				s.capacity[d] = d.usedCapacity
			}
		}
	}

	for times < 100 && s.isPublished() && s.choose(0) {
		times++
		for _, c := range s.chosen { // counters and capacities stay as they were chosen
			if !c.isAdmin && !c.device.isShared {
				s.taken[c.device] = true
			}
			if c.isAdmin {
				s.counters[s.poolOf(c.device)] -= c.device.consumes
			}
		}
		s.chosen = nil
	}

	return times
}

func (s *search) poolOf(d *wDevice) *wPool {
	i := slices.IndexFunc(s.pools, func(p *wPool) bool { return slices.Contains(p.devices, d) })
	return s.pools[i]
}

// choose tries all choices for the requests from a number on.
func (s *search) choose(request int) bool {
	if request == len(s.requests) {
		return true
	}

	for _, q := range s.requests[request] {
		if q.count > 0 {
			if s.pick(request, q, q.count, 0) {
				return true
			}
			continue
		}

		if all := s.all(q); len(all) > 0 && s.pickAll(request, q, all) {
			return true
		}
	}

	return false
}

// isPublished reports whether no pool is being published, if any request is for all.
func (s *search) isPublished() bool {
	return !slices.Contains(s.features(), "All") ||
		!slices.ContainsFunc(s.places, func(p wPlace) bool { return p.pool.isIncomplete })
}

// all returns the devices of a request for all.
func (s *search) all(q wRequest) (all []wPlace) {
	for _, p := range s.places {
		if matches(p, q) && (q.capacity == 0 || p.device.capacity >= q.capacity) {
			all = append(all, p)
		}
	}
	return all
}

func (s *search) pickAll(request int, q wRequest, all []wPlace) bool {
	if len(all) == 0 {
		return s.choose(request + 1)
	}

	if !s.add(request, q, all[0]) {
		return false
	}
	if s.pickAll(request, q, all[1:]) {
		return true
	}

	s.remove(q, all[0])
	return false
}

// pick tries all sets of a number of devices, from a place on.
func (s *search) pick(request int, q wRequest, count, from int) bool {
	if count == 0 {
		return s.choose(request + 1)
	}

	for i := from; i < len(s.places); i++ {
		if p := s.places[i]; !p.pool.isIncomplete && matches(p, q) && s.add(request, q, p) {
			if s.pick(request, q, count-1, i+1) {
				return true
			}
			s.remove(q, p)
		}
	}

	return false
}

func matches(p wPlace, q wRequest) bool {
	return p.pool.driver == q.driver && (!q.isBig || p.device.isBig)
}

// takes returns how much of a device's capacity a request takes: all, unless it says less.
func takes(d *wDevice, q wRequest) int {
	if q.capacity > 0 {
		return q.capacity
	}
	return d.capacity
}

// add chooses a device, if it may be.
func (s *search) add(request int, q wRequest, p wPlace) bool {
	d, isAdmin := p.device, s.isAdmin[request]
	if s.isEnded {
		return false
	}

	if d.isTainted && !q.tolerates || q.capacity > 0 && d.capacity == 0 ||
		s.capacity[d]+takes(d, q) > d.capacity {
		return false
	}

	if p.pool.counters > 0 && d.consumes > 0 && s.counters[p.pool]+d.consumes > p.pool.counters {
		return false
	}

	isSame := func(other *wDevice) bool {
		return other == d || other.address > 0 && other.address == d.address &&
			s.poolOf(other).node == p.pool.node
	}
	for other := range s.taken {
		if !isAdmin && !d.isShared && isSame(other) {
			return false
		}
	}

	for _, c := range s.chosen {
		isOtherClaim := s.claimOf(c.request) != s.claimOf(request)
		switch {
		case d.isShared:
		case c.device == d && !(isAdmin && isOtherClaim):
			return false
		case c.device != d && !isAdmin && !c.isAdmin && isSame(c.device):
			return false
		}
	}

	s.chosen = append(s.chosen, wChoice{request, q, d, isAdmin})
	s.counters[p.pool] += d.consumes
	if d.isShared {
		s.capacity[d] += takes(d, q)
	}

	if s.meetsConstraints() {
		return true
	}

	s.isEnded = q.count == 0
	s.remove(q, p)
	return false
}

func (s *search) remove(q wRequest, p wPlace) {
	s.chosen = s.chosen[:len(s.chosen)-1]
	s.counters[p.pool] -= p.device.consumes
	if p.device.isShared {
		s.capacity[p.device] -= takes(p.device, q)
	}
}

func (s *search) claimOf(request int) int {
	return slices.IndexFunc(s.claims, func(c []int) bool { return slices.Contains(c, request) })
}

// meetsConstraints reports whether the devices of each constraint have a value in common.
func (s *search) meetsConstraints() bool {
	for _, c := range s.constraints {
		counts, devices := map[string]int{}, 0
		for _, chosen := range s.chosen {
			if !slices.Contains(c.requests, chosen.request) {
				continue
			}

			devices++
			values := chosen.device.roots
			if c.attribute == "numa" {
				values = []string{fmt.Sprint(chosen.device.numa)}
			}

			for _, value := range values {
				counts[value]++
			}
		}

		delete(counts, "-1")
		if devices > 0 && !slices.Contains(slices.Collect(maps.Values(counts)), devices) {
			return false
		}
	}

	return true
}

// objects returns the world as Kubernetes has it.
func (w *world) objects(t *testing.T) []byte {
	t.Helper()
	var all []any
	for i, isLabelled := range w.labelled {
		n := &corev1.Node{}
		n.Kind, n.Name = "Node", nodeName(i)
		if isLabelled {
			n.Labels = map[string]string{"z": "1"}
		}
		all = append(all, n)
	}

	for _, driver := range []string{"gpu.x", "nic.x"} {
		c := &resourceapi.DeviceClass{}
		c.Kind, c.Name = "DeviceClass", driver
		c.Spec.Selectors = celOf(`device.driver == "` + driver + `"`)
		all = append(all, c)
	}

	for i, p := range w.pools {
		for _, s := range p.slices(i) {
			all = append(all, s)
		}
		for _, c := range p.used() {
			all = append(all, c)
		}
	}

	var entries []string
	for i := range w.claims {
		all = append(all, w.template(i))
		entries = append(entries, fmt.Sprintf(`{"name": "c%d", "resourceClaimTemplateName": "t%d"}`, i,
			i))
	}

	all = append(all, json.RawMessage(`{"kind": "VirtualMachine", "spec": {"template": {"spec": `+
		`{"resourceClaims": [`+strings.Join(entries, ", ")+`]}}}}`))

	var text []byte
	for _, object := range all {
		data, err := json.Marshal(object)
		expect.NoError(t, err)
		text = append(text, data...)
	}

	return text
}

func nodeName(i int) string { return fmt.Sprint("node-", i) }

func celOf(expression string) []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{
		{CEL: &resourceapi.CELDeviceSelector{Expression: expression}},
	}
}

func quantity(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

// slices returns the slices of the pool of a number.
func (p *wPool) slices(number int) (all []*resourceapi.ResourceSlice) {
	isTrue, count := true, int64(1)
	if p.isIncomplete {
		count++
	}
	if p.counters > 0 {
		count++
	}

	newSlice := func() *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{}
		s.Kind, s.Name = "ResourceSlice", fmt.Sprint("s", number, len(all))
		s.Spec.Driver = p.driver
		s.Spec.Pool = resourceapi.ResourcePool{
			Name: p.name, Generation: 1, ResourceSliceCount: count,
		}
		all = append(all, s)
		return s
	}

	setNodes := func(s *resourceapi.ResourceSliceSpec, isCounters bool) {
		switch {
		case p.node == allNodes || p.node == perDevice && isCounters:
			s.AllNodes = &isTrue
		case p.node == perDevice:
			s.PerDeviceNodeSelection = &isTrue
		case p.node == withLabel:
			s.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "z", Operator: corev1.NodeSelectorOpIn, Values: []string{"1"}},
				}},
			}}
		default:
			name := nodeName(p.node)
			s.NodeName = &name
		}
	}

	if p.counters > 0 {
		s := newSlice()
		setNodes(&s.Spec, true)
		s.Spec.SharedCounters = []resourceapi.CounterSet{
			{Name: "set", Counters: map[string]resourceapi.Counter{"c": {Value: quantity(p.counters)}}},
		}
	}

	s := newSlice()
	setNodes(&s.Spec, false)
	for _, d := range p.devices {
		device := d.published()
		switch {
		case p.node == perDevice && d.node == allNodes:
			device.AllNodes = &isTrue
		case p.node == perDevice:
			name := nodeName(d.node)
			device.NodeName = &name
		}

		s.Spec.Devices = append(s.Spec.Devices, device)
	}

	return all
}

func (d *wDevice) published() resourceapi.Device {
	p := resourceapi.Device{
		Name:       d.name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"big": {BoolValue: &d.isBig}},
	}
	switch len(d.roots) {
	case 0:
	case 1:
		p.Attributes["resource.kubernetes.io/pcieRoot"] = resourceapi.DeviceAttribute{
			StringValue: &d.roots[0],
		}
	default:
		p.Attributes["resource.kubernetes.io/pcieRoot"] = resourceapi.DeviceAttribute{
			StringValues: d.roots,
		}
	}

	if numa := int64(d.numa); numa >= 0 {
		p.Attributes["resource.kubernetes.io/numaNode"] = resourceapi.DeviceAttribute{IntValue: &numa}
	}

	if d.address > 0 {
		text := fmt.Sprintf("0000:%02x:00.0", d.address)
		p.Attributes["resource.kubernetes.io/pciBusID"] = resourceapi.DeviceAttribute{StringValue: &text}
	}

	if d.isTainted {
		p.Taints = []resourceapi.DeviceTaint{
			{Key: "bad", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		}
	}

	if d.consumes > 0 {
		p.ConsumesCounters = []resourceapi.DeviceCounterConsumption{
			{CounterSet: "set", Counters: map[string]resourceapi.Counter{"c": {Value: quantity(d.consumes)}}},
		}
	}

	if d.capacity > 0 {
		p.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"mem": {Value: quantity(d.capacity)},
		}
	}
	if d.isShared {
		p.AllowMultipleAllocations = &d.isShared
	}

	return p
}

// used returns the claims that have devices of the pool.
func (p *wPool) used() (claims []*resourceapi.ResourceClaim) {
	for i, d := range p.devices {
		result := resourceapi.DeviceRequestAllocationResult{
			Request: "r", Driver: p.driver, Pool: p.name, Device: d.name,
		}

		switch {
		case d.usedCapacity > 0:
			id := types.UID(fmt.Sprint(p.name, i))
			result.ShareID = &id
			result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{
				"mem": quantity(d.usedCapacity),
			}
		case !d.isUsed:
			continue
		}

		c := &resourceapi.ResourceClaim{}
		c.Kind, c.Name = "ResourceClaim", fmt.Sprint("u-", p.name, "-", i)
		c.Status.Allocation = &resourceapi.AllocationResult{}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, result)
		claims = append(claims, c)
	}

	return claims
}

// template returns the template of the claim of a number.
func (w *world) template(number int) *resourceapi.ResourceClaimTemplate {
	t := &resourceapi.ResourceClaimTemplate{}
	t.Kind, t.Name = "ResourceClaimTemplate", fmt.Sprint("t", number)
	devices := &t.Spec.Spec.Devices
	for _, i := range w.claims[number] {
		request := resourceapi.DeviceRequest{Name: fmt.Sprint("r", i)}
		if alternatives := w.requests[i]; len(alternatives) == 1 {
			s := alternatives[0].published("")
			request.Exactly = &resourceapi.ExactDeviceRequest{
				DeviceClassName: s.DeviceClassName, Selectors: s.Selectors,
				AllocationMode: s.AllocationMode, Count: s.Count, Tolerations: s.Tolerations,
				Capacity: s.Capacity,
			}
			if w.isAdmin[i] {
				request.Exactly.AdminAccess = &w.isAdmin[i]
			}
		} else {
			for j, q := range alternatives {
				request.FirstAvailable = append(request.FirstAvailable, q.published(fmt.Sprint("s", j)))
			}
		}

		devices.Requests = append(devices.Requests, request)
	}

	names := map[string]resourceapi.FullyQualifiedName{
		"root": "resource.kubernetes.io/pcieRoot", "numa": "resource.kubernetes.io/numaNode",
	}
	for _, c := range w.constraints {
		if !slices.Contains(w.claims[number], c.requests[0]) {
			continue
		}

		name := names[c.attribute]
		constraint := resourceapi.DeviceConstraint{MatchAttribute: &name}
		for _, i := range c.requests {
			constraint.Requests = append(constraint.Requests, fmt.Sprint("r", i))
		}

		devices.Constraints = append(devices.Constraints, constraint)
	}

	return t
}

func (q wRequest) published(name string) resourceapi.DeviceSubRequest {
	s := resourceapi.DeviceSubRequest{Name: name, DeviceClassName: q.driver, Count: int64(q.count)}
	if q.count == 0 {
		s.AllocationMode = resourceapi.DeviceAllocationModeAll
	}
	if q.isBig {
		s.Selectors = celOf(`device.attributes["` + q.driver + `"].big`)
	}
	if q.tolerates {
		s.Tolerations = []resourceapi.DeviceToleration{
			{Key: "bad", Operator: resourceapi.DeviceTolerationOpExists},
		}
	}
	if q.capacity > 0 {
		s.Capacity = &resourceapi.CapacityRequirements{
			Requests: map[resourceapi.QualifiedName]resource.Quantity{"mem": quantity(q.capacity)},
		}
	}

	return s
}
