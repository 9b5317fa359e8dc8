package record

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// WaitingOf is the waiting entry of a task.
func WaitingOf(job Job, task Task) apitypes.Waiting {
	return apitypes.Waiting{
		Job:      job.ID,
		Task:     task.Index,
		Priority: job.Priority,
		Since:    task.ReadyAt,
		MinPlan:  task.MinPlan,
	}
}

// AddClaim adds a claim to capacity that becomes free in a queue. It drops expired claims.
func AddClaim(q *apitypes.Queue, c apitypes.Claim, now time.Time) {
	DropClaim(q, c.For)
	q.Claims = slices.DeleteFunc(q.Claims, func(c apitypes.Claim) bool { return !now.Before(c.Until) })
	q.Claims = append(q.Claims, c)
}

// DropClaim removes a claim.
func DropClaim(q *apitypes.Queue, name string) {
	q.Claims = slices.DeleteFunc(slices.Clone(q.Claims), func(c apitypes.Claim) bool { return c.For == name })
}

// MakesRoom reports whether machines of a pool are kept for any task in the queues.
func MakesRoom(queues []*apitypes.Queue, now time.Time) bool {
	return slices.ContainsFunc(queues, func(q *apitypes.Queue) bool {
		return slices.ContainsFunc(q.Claims, func(c apitypes.Claim) bool { return c.Pool != "" && now.Before(c.Until) })
	})
}

// GangMark separates a job's ID from the name of a gang. Neither contains it.
const GangMark = "/gang/"

// MaxTree is the maximum number of queues in a tree, because an admission holds the records of all of them.
const MaxTree = 24

// ErrQueue means that the settings of a queue contradict each other or those of other queues.
var ErrQueue = errors.New("queue")

// QueueSettings are the settings of a queue by its owner. A quota of zero means no limit.
type QueueSettings struct {
	MaxRunning  int
	MaxVCPU     float64
	Description string
	// Parent is the queue whose quota this queue shares; empty means none.
	Parent string
	// Weight is its share among its siblings; 0 means 1.
	Weight int
	// DeservedVCPU is the amount up to which it may reclaim from its siblings; 0 means the amount by its weight.
	// GuaranteedVCPU is kept for it even if it does not use it.
	DeservedVCPU, GuaranteedVCPU float64
	// Max, Deserved and Guaranteed are the same for other resources: memory, accelerators by kind, USD per hour. Max
	// may also have USDPerMonth.
	Max, Deserved, Guaranteed apitypes.Amounts
	// Preempt lets jobs of higher priority take machines from jobs of lower priority, which save their work first.
	Preempt bool
	// Closed queues, and those below them, admit nothing.
	Closed bool
	// Keep is the time for which finished jobs are kept, as in a job file; empty means that the queue above or the
	// broker decides.
	Keep string
}

// SettingsOf returns the settings of the queue.
func SettingsOf(q apitypes.Queue) QueueSettings {
	return QueueSettings{
		MaxRunning: q.MaxRunning, MaxVCPU: q.MaxVCPU, Description: q.Description, Parent: q.Parent, Weight: q.Weight,
		DeservedVCPU: q.DeservedVCPU, GuaranteedVCPU: q.GuaranteedVCPU, Preempt: q.Preempt, Closed: q.Closed,
		Max: q.Max, Deserved: q.Deserved, Guaranteed: q.Guaranteed, Keep: q.Keep,
	}
}

// SetQueue changes the queue's settings. A suspended queue stays closed until it is resumed, even if the settings say
// that it is open: a client may have read them before the queue was suspended.
func SetQueue(q *apitypes.Queue, s QueueSettings) {
	q.MaxRunning, q.MaxVCPU, q.Description, q.Parent, q.Weight = s.MaxRunning, s.MaxVCPU, s.Description,
		s.Parent, s.Weight
	q.DeservedVCPU, q.GuaranteedVCPU, q.Preempt = s.DeservedVCPU, s.GuaranteedVCPU, s.Preempt
	q.Keep = s.Keep
	q.Max, q.Deserved, q.Guaranteed = bounds(s.Max), bounds(s.Deserved), bounds(s.Guaranteed)
	q.Closed, q.Configured = s.Closed || !q.Suspended.Since.IsZero(), true
}

// CheckSettings checks the amounts.
func CheckSettings(s QueueSettings) error {
	for field, a := range map[string]apitypes.Amounts{"deserved": s.Deserved, "guaranteed": s.Guaranteed} {
		if a[apitypes.USDPerMonth] > 0 {
			return fmt.Errorf("%w: %s.%s: a monthly budget can only be a max", ErrQueue, field, apitypes.USDPerMonth)
		}
	}
	if _, err := dag.ParseKeep(s.Keep); err != nil {
		return fmt.Errorf("%w: keep: %w", ErrQueue, err)
	}
	return cmp.Or(checkAmount("maxVCPU", s.MaxVCPU), checkAmount("deservedVCPU", s.DeservedVCPU),
		checkAmount("guaranteedVCPU", s.GuaranteedVCPU), checkAmounts("max", s.Max),
		checkAmounts("deserved", s.Deserved), checkAmounts("guaranteed", s.Guaranteed))
}

// CheckQueue returns an error if settings contradict each other.
func CheckQueue(q apitypes.Queue) error {
	for _, x := range []struct {
		name  string
		value float64
	}{{"maxVCPU", q.MaxVCPU}, {"deservedVCPU", q.DeservedVCPU}, {"guaranteedVCPU", q.GuaranteedVCPU},
		{"maxRunning", float64(q.MaxRunning)}, {"weight", float64(q.Weight)}} {
		if !(x.value >= 0) || math.IsInf(x.value, 0) {
			return fmt.Errorf("%w: %s: %v is not a quantity", ErrQueue, x.name, x.value)
		}
	}
	for name, most := range q.Max {
		if least := max(q.Deserved[name], q.Guaranteed[name]); least > most {
			return fmt.Errorf("%w: max.%s: %g is less than what the queue deserves or is guaranteed, %g", ErrQueue,
				name, most, least)
		}
	}
	if q.MaxVCPU > 0 && max(q.DeservedVCPU, q.GuaranteedVCPU) > q.MaxVCPU {
		return fmt.Errorf("%w: maxVCPU: %g is less than what the queue deserves or is guaranteed, %g", ErrQueue,
			q.MaxVCPU, max(q.DeservedVCPU, q.GuaranteedVCPU))
	}
	return nil
}

// Pointers returns pointers to the queues, in the same order.
func Pointers(queues []apitypes.Queue) []*apitypes.Queue {
	all := make([]*apitypes.Queue, len(queues))
	for i := range queues {
		all[i] = &queues[i]
	}
	return all
}

// Forest indexes queues by name.
func Forest(queues []apitypes.Queue) map[string]*apitypes.Queue {
	t := make(map[string]*apitypes.Queue, len(queues))
	for i := range queues {
		t[queues[i].Name] = &queues[i]
	}
	return t
}

// RootOf returns the queue at the top of a queue's tree. ok is false if the queue is below itself.
func RootOf(t map[string]*apitypes.Queue, name string) (root string, ok bool) {
	for range len(t) + 1 {
		q := t[name]
		if q == nil || q.Parent == "" || t[q.Parent] == nil {
			return name, true
		}
		name = q.Parent
	}
	return "", false
}

// TreeOf lists the queues of a tree, by name.
func TreeOf(t map[string]*apitypes.Queue, root string) []*apitypes.Queue {
	var out []*apitypes.Queue
	for _, q := range t {
		if r, ok := RootOf(t, q.Name); ok && r == root {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b *apitypes.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// UseOf returns the tasks and amounts that a queue and all queues below it have admitted, which count against its
// limits.
func UseOf(tree []*apitypes.Queue, q *apitypes.Queue) (running int, held apitypes.Amounts) {
	return useOf(tree, q, 0)
}

func useOf(tree []*apitypes.Queue, q *apitypes.Queue, depth int) (running int, held apitypes.Amounts) {
	running, held = q.Running, q.Used()
	for _, x := range tree {
		if x.Parent == q.Name && x != q && depth < MaxTree {
			r, h := useOf(tree, x, depth+1)
			running, held = running+r, held.Plus(h)
		}
	}
	return running, held
}

// The resources that every session counts, in thousandths.
const (
	ResTasks = iota
	ResVCPU
)

// Own is the suffix of the scheduler's queue for jobs that wait directly in a queue that has queues below it.
const Own = "/own jobs"

// Leaf returns the name of the scheduler's queue for a queue's jobs.
func Leaf(q *apitypes.Queue) string {
	if q.Inner {
		return q.Name + Own
	}
	return q.Name
}
