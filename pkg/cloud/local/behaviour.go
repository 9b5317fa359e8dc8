package local

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// DefaultNotice is how long before it takes a machine a cloud says so: what AWS gives.
const DefaultNotice = 2 * time.Minute

// Request is a launch as a Behaviour sees it.
type Request struct {
	Offer   apitypes.Offer
	Cluster string
	Nodes   int
	Labels  map[string]string
	Now     time.Time     // virtual
	Since   time.Duration // the same, from the start of the first host on the directory
}

// Verdict is what becomes of a launch. The zero value lets it succeed.
type Verdict struct {
	Err    *cloud.Error  // it fails so
	Delay  time.Duration // it takes so long first, in virtual time
	Hang   bool          // it never answers
	Unseen bool          // the machines are started but the answer, Err or a time-out, says that it failed
}

// Preemption is when a machine will be taken.
type Preemption struct {
	At     time.Time
	Notice time.Duration
}

// Behaviour decides what a cloud does that nobody asked for. Its methods are safe for concurrent use, and
// the same seed, trace or script gives the same answers.
type Behaviour interface {
	// Launch says what becomes of a launch. It is asked once a call; not when the cluster exists already.
	Launch(Request) Verdict
	// Preemption says when machine rank of a cluster launched at r.Now will be taken, if it will be. It is asked once a
	// machine.
	Preemption(r Request, rank int) (Preemption, bool)
}

// Remembering is a Behaviour with a memory, which the host keeps over restarts.
type Remembering interface {
	Behaviour
	Save() ([]byte, error) // JSON
	Restore([]byte) error
}

// None is a cloud that always has capacity and takes nothing.
type None struct{}

// Launch succeeds.
func (None) Launch(Request) Verdict { return Verdict{} }

// Preemption never comes.
func (None) Preemption(Request, int) (Preemption, bool) { return Preemption{}, false }

// Seeded fails launches and takes spot machines at random. A place that has no capacity has none for Window, so trying
// the same again at once is of no use, as in a real cloud.
type Seeded struct {
	Seed uint64
	// CapacityFailure is the probability that a launch finds no capacity, by offer; nil is never.
	CapacityFailure func(apitypes.Offer) float64
	// MeanLife is the expected time until a spot machine is taken (exponentially distributed), by offer; nil or 0 is
	// never.
	MeanLife func(apitypes.Offer) time.Duration
	Window   time.Duration // 30 min when 0
	Notice   time.Duration // DefaultNotice when 0
}

// Launch fails with Capacity or succeeds.
func (s Seeded) Launch(r Request) Verdict {
	if s.CapacityFailure == nil {
		return Verdict{}
	}
	window := s.Window
	if window <= 0 {
		window = 30 * time.Minute
	}
	if s.uniform("launch", place(r.Offer), uint64(r.Since/window)) >= s.CapacityFailure(r.Offer) { //nolint:gosec // any number will do
		return Verdict{}
	}
	return noCapacity(r.Offer)
}

// Preemption draws the life of a spot machine.
func (s Seeded) Preemption(r Request, rank int) (Preemption, bool) {
	if s.MeanLife == nil || !r.Offer.Spot {
		return Preemption{}, false
	}
	mean := s.MeanLife(r.Offer)
	if mean <= 0 {
		return Preemption{}, false
	}
	notice := s.Notice
	if notice <= 0 {
		notice = DefaultNotice
	}
	life := -math.Log(1-s.uniform("life", r.Cluster, uint64(rank))) * float64(mean) //nolint:gosec // ranks are positive
	return Preemption{At: r.Now.Add(time.Duration(min(life, math.MaxInt64/2))), Notice: notice}, true
}

// uniform is a number in [0, 1) that depends on its arguments alone.
func (s Seeded) uniform(what, of string, n uint64) float64 {
	return float64(mix(s.Seed, what, of, n)>>11) / (1 << 53)
}

// mix hashes its arguments, FNV-1a with a finalizer so that near arguments give far results.
func mix(seed uint64, what, of string, n uint64) uint64 {
	h := fnv.New64a()
	var b [8]byte
	for _, v := range []uint64{seed, n} {
		binary.LittleEndian.PutUint64(b[:], v)
		_, _ = h.Write(b[:])
	}
	_, _ = h.Write([]byte(what + "\x00" + of))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// place is what has capacity or not: machines of a type, in a zone, in a market.
func place(o apitypes.Offer) string {
	market := "on-demand"
	if o.Spot {
		market = "spot"
	}
	return o.Cloud + "/" + o.Region + "/" + o.Zone + "/" + o.InstanceType + "/" + o.Accelerator + "/" + market
}

// capacityCodes are what clouds call it when they have no machine.
func capacityCode(cloudName string) string {
	switch cloudName {
	case "aws":
		return "InsufficientInstanceCapacity"
	case "gcp":
		return "ZONE_RESOURCE_POOL_EXHAUSTED"
	case "azure":
		return "AllocationFailed"
	}
	return "insufficient-capacity"
}

func noCapacity(o apitypes.Offer) Verdict {
	where := o.Zone
	if where == "" {
		where = o.Region
	}
	return Verdict{Err: cloud.Errorf(o.Cloud, cloud.Capacity, capacityCode(o.Cloud),
		"no capacity for %s in %s at this time", o.InstanceType, where)}
}

// judge asks the behaviour about a launch, and lives through the time it takes.
func (h *Host) judge(ctx context.Context, r Request) (Verdict, error) {
	v := h.cfg.Behaviour.Launch(r)
	h.mu.Lock()
	err := h.remember()
	h.mu.Unlock()
	if err != nil {
		return v, err
	}
	if v.Delay > 0 {
		if err := h.cfg.Clock.After(ctx, r.Now.Add(v.Delay)); err != nil {
			return v, err
		}
	}
	if v.Hang && !v.Unseen {
		<-ctx.Done()
		return v, ctx.Err()
	}
	if v.Err != nil && !v.Unseen {
		return v, v.Err
	}
	return v, nil
}

// remember keeps the memory of a behaviour that has one. h.mu is held.
func (h *Host) remember() error {
	if _, ok := h.cfg.Behaviour.(Remembering); ok {
		return h.saveState()
	}
	return nil
}
