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

// DefaultNotice is the time between a cloud's notice and the end of a machine, by default AWS's time.
const DefaultNotice = 2 * time.Minute

// Request is a launch as a Behaviour sees it.
type Request struct {
	Offer   apitypes.Offer
	Cluster string
	Nodes   int
	Labels  map[string]string
	Now     time.Time     // virtual time
	Since   time.Duration // virtual time since the start of the first host on the directory
}

// Verdict is the outcome of a launch. The zero value is success.
type Verdict struct {
	Err    *cloud.Error  // the launch fails with this error
	Delay  time.Duration // the launch takes this long, in virtual time
	Hang   bool          // the launch never returns
	Unseen bool          // the machines start, but the launch returns Err or a lost answer
}

// Preemption is the time at which a machine will be interrupted, and the notice before it.
type Preemption struct {
	At     time.Time
	Notice time.Duration
}

// Behaviour decides the simulated events of a cloud: failures and interruptions. Its methods are safe for concurrent
// use, and give the same answers for the same seed, trace or script.
type Behaviour interface {
	// Launch returns the outcome of a launch. It is called once per launch call, but not if the cluster already exists.
	Launch(Request) Verdict
	// Preemption returns the time at which a machine will be interrupted, if at all: the machine with a rank in a
	// cluster that was launched at r.Now. It is called once per machine.
	Preemption(r Request, rank int) (Preemption, bool)
}

// Remembering is a Behaviour with state, which the host saves across restarts.
type Remembering interface {
	Behaviour
	Save() ([]byte, error) // JSON
	Restore([]byte) error
}

// None is a cloud that always has capacity and never interrupts a machine.
type None struct{}

// Launch always succeeds.
func (None) Launch(Request) Verdict { return Verdict{} }

// Preemption never happens.
func (None) Preemption(Request, int) (Preemption, bool) { return Preemption{}, false }

// Seeded makes launches fail and interrupts spot machines at random. A place without capacity has none for the whole
// Window. So an immediate retry is useless, as in a real cloud.
type Seeded struct {
	Seed uint64
	// CapacityFailure is the probability that a launch finds no capacity, by offer; nil means never.
	CapacityFailure func(apitypes.Offer) float64
	// MeanLife is the expected time until a spot machine is interrupted (exponentially distributed), by offer; nil or
	// 0 means never.
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

// uniform is a number in [0, 1) that depends only on its arguments.
func (s Seeded) uniform(what, of string, n uint64) float64 {
	return float64(mix(s.Seed, what, of, n)>>11) / (1 << 53)
}

// mix hashes its arguments: FNV-1a with a finalizer, so that similar arguments give different results.
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

// place identifies capacity: machines of a type, in a zone, on a market.
func place(o apitypes.Offer) string {
	market := "on-demand"
	if o.Spot {
		market = "spot"
	}
	return o.Cloud + "/" + o.Region + "/" + o.Zone + "/" + o.InstanceType + "/" + o.Accelerator + "/" + market
}

// capacityCode returns a cloud's error code for missing capacity.
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

// judge gets the behaviour's verdict on a launch, and waits for the delay in it.
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

// remember saves the state of a behaviour that has one. The caller holds h.mu.
func (h *Host) remember() error {
	if _, ok := h.cfg.Behaviour.(Remembering); ok {
		return h.saveState()
	}
	return nil
}
