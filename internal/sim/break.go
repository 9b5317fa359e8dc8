package sim

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/sim/mangle"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Break is a way in which the system under test is deliberately broken, to see that the invariants
// notice. The zero value breaks nothing.
type Break string

// The ways to break it.
const (
	// NoOutbox: what is emitted is not written beside the records.
	NoOutbox Break = "no-outbox"
	// NoSeen: handled events are not remembered, so that a repeated delivery is handled again.
	NoSeen Break = "no-seen"
	// NoConditions: transactions are applied whatever version they expect.
	NoConditions Break = "no-conditions"
	// NoToken: a launch that is repeated buys again.
	NoToken Break = "no-token"
	// NoBlock: nobody remembers what location has just failed.
	NoBlock Break = "no-block"
	// NoTerminate: machines go on when they are terminated.
	NoTerminate Break = "no-terminate"
	// LossyBus: the bus says that it has a message that it lost.
	LossyBus Break = "lossy-bus"
	// NoReconcile: nobody looks after what was left half done.
	NoReconcile Break = "no-reconcile"
	// NoBudget: nobody remembers that a job has a budget.
	NoBudget Break = "no-budget"
	// Forgetful: agents remove the checkpoint that the broker has just taken note of.
	Forgetful Break = "forgetful"
	// NoPartitions: machines of pools are taken whatever has become of them since they were seen.
	NoPartitions Break = "no-partitions"
	// NoGang: nobody remembers which tasks start together.
	NoGang Break = "no-gang"
	// Loners: nobody remembers which tasks join a gang, and do not begin without it.
	Loners Break = "loners"
	// Herd: nobody remembers that a role begins anew by itself.
	Herd Break = "herd"
	// Headless: nobody hears that a gang's chief has succeeded.
	Headless Break = "headless"
	// NoHold: sessions do not hold the queues that share a quota with theirs, whose use may have changed since they
	// were read.
	NoHold Break = "no-hold"
	// OldPrice: nobody remembers what spot machines cost now, so that they are charged at the price they were bought
	// at.
	OldPrice Break = "old-price"
	// Overtaking: what has waited for too long is overtaken in its queue.
	Overtaking Break = "overtaking"
	// Swinging: nobody remembers for whom others were stopped, so that who was stopped stops the other in turn.
	Swinging Break = "swinging"
	// Stuck: nobody advances jobs.
	Stuck Break = "stuck"
	// NoUploads: nobody remembers which uploads were begun.
	NoUploads Break = "no-uploads"
	// Generous: whatever an agent asks for is granted, and Lasting: whenever it asks.
	Generous Break = "generous"
	Lasting  Break = "lasting"
	// Hasty: agents say that an object is there when they have begun to send it.
	Hasty Break = "hasty"
	// Homesick: nobody knows of the stores of places.
	Homesick Break = "homesick"
	// Careless: drivers do not say that a launch had made machines before it failed, and leave them.
	Careless Break = "careless"
	// Stale: the lists of clouds lag for longer than the broker allows for.
	Stale Break = "stale"
	// Deaf: nobody acts upon the notices of clouds.
	Deaf Break = "deaf"
	// Asleep: a job that rests is not woken when it holds something.
	Asleep Break = "asleep"
	// Unmeasured: nobody remembers what queues hold beside vCPUs.
	Unmeasured Break = "unmeasured"
	// Fleeting: nobody remembers that machines are kept when their task fails.
	Fleeting Break = "fleeting"
	// Crowding: nobody remembers who runs on what an account has reserved.
	Crowding Break = "crowding"
	// Overcommitted: nobody remembers how much a gang takes of a commitment: each counts as one machine.
	Overcommitted Break = "overcommitted"
	// Circling: nobody remembers that a reservation was in use, so that a gang that found no room there goes there
	// again at once.
	Circling Break = "circling"
	// Impatient: nobody remembers that a job waits for blocks to end.
	Impatient Break = "impatient"
	// Restless: nobody remembers that a job is suspended.
	Restless Break = "restless"
	// Nameless: nobody remembers what namespaces hold of queues.
	Nameless Break = "nameless"
	// Nightless: nobody hears at which hours machines are to be had.
	Nightless Break = "nightless"
	// Spendthrift: nobody remembers what was spent in a month, and Hoarding: that anything was set aside of its budget.
	Spendthrift Break = "spendthrift"
	Hoarding    Break = "hoarding"
	// Mingling: nobody remembers where tasks stand that rules of placement know.
	Mingling Break = "mingling"
)

// Breaks returns all of them.
func Breaks() []Break {
	return []Break{NoOutbox, NoSeen, NoConditions, NoToken, NoBlock, NoTerminate, LossyBus, NoReconcile, NoBudget,
		Forgetful, Overtaking, NoPartitions, NoGang, Loners, Herd, Headless, NoHold, OldPrice, Swinging, Asleep,
		Stuck, NoUploads, Generous, Lasting, Hasty, Homesick, Careless, Stale, Deaf, Restless, Unmeasured,
		Fleeting, Crowding, Overcommitted, Circling, Impatient, Nameless, Nightless, Mingling, Spendthrift, Hoarding}
}

// forgotten are fields that a broken store loses: of which records, from where to where.
var forgotten = map[Break]struct{ of, from, to string }{
	NoBudget:  {"job", `"budgetUSD":`, ","},
	NoGang:    {"task#", `,"gang":"`, `"`},
	Loners:    {"task#", `,"joins":"`, `"`},
	Impatient: {"job", `,"infeasible":"retr`, `"`},
	Fleeting:  {"cluster#", `,"keptUntil":"`, `"`},
}

// unwritten are records that a broken store does not write.
var unwritten = map[Break]string{NoSeen: "seen#", Crowding: record.PartHeld, NoBlock: "blocks", OldPrice: "market"}

// tx is what a broken store makes of a transaction.
func (b Break) tx(tx store.Tx) store.Tx {
	if f, ok := forgotten[b]; ok {
		return mangle.WithoutField(tx, f.of, f.from, f.to)
	}
	if of, ok := unwritten[b]; ok {
		return mangle.Without(tx, of)
	}
	switch b {
	case NoOutbox:
		return store.Tx{Writes: tx.Writes}
	case Overcommitted:
		return mangle.AsOne(tx, func(k store.Key) bool {
			return k.Partition == record.PartHeld && strings.Contains(k.Sort, planner.Committed)
		})
	case Mingling:
		return mangle.Drop(tx, func(w store.Write) bool {
			return w.Key.Partition == record.PartStands || w.Key.Sort == "stands"
		})
	case Swinging:
		return mangle.WithoutField(mangle.WithoutField(tx, "task#", `,"yieldedTo":[`, "]"), "", `,"claims":[`, "]")
	case Asleep:
		return mangle.Drop(tx, func(w store.Write) bool {
			return w.Key.Partition == record.PartActive && w.Op == store.Put && w.Expect != store.Absent &&
				!bytes.Contains(w.Body, []byte(`"restsUntil"`))
		})
	case NoUploads:
		return mangle.Drop(tx, func(w store.Write) bool { return strings.HasPrefix(w.Key.Sort, "upload#") })
	case NoHold:
		return mangle.Drop(tx,
			func(w store.Write) bool { return w.Op == store.Check && w.Key.Partition == "queues" })
	case NoPartitions:
		return mangle.Unconditional(tx, "pool#")
	case NoConditions:
		tx = mangle.Drop(tx, func(w store.Write) bool { return w.Op == store.Check })
		for i := range tx.Writes {
			tx.Writes[i].Expect = store.Any
		}
		return tx
	default:
		return tx
	}
}

// said is what a function that is broken says in a transaction: nobody knows that it had to be anything else.
func (b Break) said(tx store.Tx) store.Tx {
	switch b {
	case Herd:
		return mangle.WithoutField(tx, "task#", `,"alone":tru`, "e")
	case Unmeasured:
		return mangle.WithoutField(tx, "", `,"use":{`, "}")
	case Nameless:
		return mangle.WithoutField(tx, "", `,"spaces":[`, "]")
	case Spendthrift:
		return mangle.WithoutField(tx, "", `,"month":{`, "}")
	case Hoarding:
		return mangle.WithoutField(tx, "attempt#", `,"monthly":tru`, "e")
	case Nightless:
		return mangle.WithoutField(tx, "", `,"window":"`, `"`)
	case Circling:
		return mangle.Drop(tx, func(w store.Write) bool {
			return w.Key.Partition == "blocks" && bytes.Contains(w.Body, []byte("machines of the reservation"))
		})
	case Restless:
		return mangle.WithoutField(tx, "job", `,"suspensions":[`, "]")
	case Headless:
		tx.Events = slices.DeleteFunc(slices.Clone(tx.Events), func(e store.Event) bool {
			return bytes.Contains(e.Body, []byte(`"`+events.TypeGangBroken+`"`)) &&
				bytes.Contains(e.Body, []byte(`"done":true`))
		})
		return tx
	default:
		return tx
	}
}

// moves says whether the break is of something that takes moving data.
func (b Break) moves() bool {
	return slices.Contains([]Break{NoUploads, Generous, Lasting, Hasty, Homesick}, b)
}

// gangs says whether the break is of something that only gangs have.
func (b Break) gangs() bool { return b == Herd || b == Headless || b == Circling || b == Overcommitted }

// keep is how many checkpoints an agent keeps.
func (b Break) keep() int {
	if b == Forgetful {
		return 0
	}
	return keepCheckpoints
}
