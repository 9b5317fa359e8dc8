// Package breaks is the ways in which the simulator breaks the system under test on purpose, to see that the invariants
// notice: their names, what a broken store and broken functions make of transactions, and what a world needs for a
// break to matter. Most are a line where the world does what is broken; those are not here.
package breaks

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

// Kind is a way in which the system under test is deliberately broken, to see that the invariants
// notice. The zero value breaks nothing.
type Kind string

// The ways to break it.
const (
	// NoOutbox: what is emitted is not written beside the records.
	NoOutbox Kind = "no-outbox"
	// NoSeen: handled events are not remembered, so that a repeated delivery is handled again.
	NoSeen Kind = "no-seen"
	// NoConditions: transactions are applied whatever version they expect.
	NoConditions Kind = "no-conditions"
	// NoToken: a launch that is repeated buys again.
	NoToken Kind = "no-token"
	// NoBlock: nobody remembers what location has just failed.
	NoBlock Kind = "no-block"
	// NoTerminate: machines go on when they are terminated.
	NoTerminate Kind = "no-terminate"
	// LossyBus: the bus says that it has a message that it lost.
	LossyBus Kind = "lossy-bus"
	// NoReconcile: nobody looks after what was left half done.
	NoReconcile Kind = "no-reconcile"
	// NoBudget: nobody remembers that a job has a budget.
	NoBudget Kind = "no-budget"
	// Forgetful: agents remove the checkpoint that the broker has just taken note of.
	Forgetful Kind = "forgetful"
	// NoPartitions: machines of pools are taken whatever has become of them since they were seen.
	NoPartitions Kind = "no-partitions"
	// NoGang: nobody remembers which tasks start together.
	NoGang Kind = "no-gang"
	// Loners: nobody remembers which tasks join a gang, and do not begin without it.
	Loners Kind = "loners"
	// Herd: nobody remembers that a role begins anew by itself.
	Herd Kind = "herd"
	// Headless: nobody hears that a gang's chief has succeeded.
	Headless Kind = "headless"
	// NoHold: sessions do not hold the queues that share a quota with theirs, whose use may have changed since they
	// were read.
	NoHold Kind = "no-hold"
	// OldPrice: nobody remembers what spot machines cost now, so that they are charged at the price they were bought
	// at.
	OldPrice Kind = "old-price"
	// Overtaking: what has waited for too long is overtaken in its queue.
	Overtaking Kind = "overtaking"
	// Swinging: nobody remembers for whom others were stopped, so that who was stopped stops the other in turn.
	Swinging Kind = "swinging"
	// Stuck: nobody advances jobs.
	Stuck Kind = "stuck"
	// NoUploads: nobody remembers which uploads were begun.
	NoUploads Kind = "no-uploads"
	// Generous: whatever an agent asks for is granted, and Lasting: whenever it asks.
	Generous Kind = "generous"
	Lasting  Kind = "lasting"
	// Hasty: agents say that an object is there when they have begun to send it.
	Hasty Kind = "hasty"
	// Homesick: nobody knows of the stores of places.
	Homesick Kind = "homesick"
	// Careless: drivers do not say that a launch had made machines before it failed, and leave them.
	Careless Kind = "careless"
	// Stale: the lists of clouds lag for longer than the broker allows for.
	Stale Kind = "stale"
	// Deaf: nobody acts upon the notices of clouds.
	Deaf Kind = "deaf"
	// Asleep: a job that rests is not woken when it holds something.
	Asleep Kind = "asleep"
	// Unmeasured: nobody remembers what queues hold beside vCPUs.
	Unmeasured Kind = "unmeasured"
	// Fleeting: nobody remembers that machines are kept when their task fails.
	Fleeting Kind = "fleeting"
	// Crowding: nobody remembers who runs on what an account has reserved.
	Crowding Kind = "crowding"
	// Overcommitted: nobody remembers how much a gang takes of a commitment: each counts as one machine.
	Overcommitted Kind = "overcommitted"
	// Circling: nobody remembers that a reservation was in use, so that a gang that found no room there goes there
	// again at once.
	Circling Kind = "circling"
	// Impatient: nobody remembers that a job waits for blocks to end.
	Impatient Kind = "impatient"
	// Restless: nobody remembers that a job is suspended.
	Restless Kind = "restless"
	// Nameless: nobody remembers what namespaces hold of queues.
	Nameless Kind = "nameless"
	// Nightless: nobody hears at which hours machines are to be had.
	Nightless Kind = "nightless"
	// Spendthrift: nobody remembers what was spent in a month, and Hoarding: that anything was set aside of its budget.
	Spendthrift Kind = "spendthrift"
	Hoarding    Kind = "hoarding"
	// Roomless: nobody remembers for whom room on machines is kept while what runs there is moved.
	Roomless Kind = "roomless"
	// Mingling: nobody remembers where tasks stand that rules of placement know.
	Mingling Kind = "mingling"
	// Abandoned: nobody remembers that a job has services, whose replicas are tried again. Boastful: replicas say that
	// they are ready before they are.
	Abandoned Kind = "abandoned"
	Boastful  Kind = "boastful"
	// Versionless: nobody remembers which version of a service a replica runs.
	Versionless Kind = "versionless"
	// Tireless: nobody remembers how often a task has taken down the agents of its machines.
	Tireless Kind = "tireless"
)

// All returns all of them.
func All() []Kind {
	return []Kind{NoOutbox, NoSeen, NoConditions, NoToken, NoBlock, NoTerminate, LossyBus, NoReconcile, NoBudget,
		Forgetful, Overtaking, NoPartitions, NoGang, Loners, Herd, Headless, NoHold, OldPrice, Swinging, Asleep,
		Stuck, NoUploads, Generous, Lasting, Hasty, Homesick, Careless, Stale, Deaf, Restless, Unmeasured,
		Fleeting, Crowding, Overcommitted, Circling, Impatient, Nameless, Nightless, Mingling, Spendthrift, Hoarding,
		Abandoned, Boastful, Versionless, Tireless, Roomless}
}

// forgotten are fields that a broken store loses: of which records, from where to where.
var forgotten = map[Kind]struct{ of, from, to string }{
	NoBudget:    {"job", `"budgetUSD":`, ","},
	NoGang:      {"task#", `,"gang":"`, `"`},
	Loners:      {"task#", `,"joins":"`, `"`},
	Impatient:   {"job", `,"infeasible":"retr`, `"`},
	Fleeting:    {"cluster#", `,"keptUntil":"`, `"`},
	Versionless: {"cluster#", `"spec":`, ","},
	Abandoned:   {"job", `,"serves":tru`, "e"},
	Tireless:    {"task#", `"silent":`, ","},
}

// unwritten are records that a broken store does not write.
var unwritten = map[Kind]string{NoSeen: "seen#", Crowding: record.PartHeld, NoBlock: "blocks", OldPrice: "market"}

// Tx is what a broken store makes of a transaction.
func (b Kind) Tx(tx store.Tx) store.Tx {
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

// Said is what a function that is broken says in a transaction: nobody knows that it had to be anything else.
func (b Kind) Said(tx store.Tx) store.Tx {
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
	case Roomless:
		for range roomless {
			tx = mangle.WithoutField(tx, "", `,"promises":[`, "]")
		}
		return tx
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

// roomless is of how many machines in a record is forgotten what is kept.
const roomless = 8

// Moves says whether the break is of something that takes moving data.
func (b Kind) Moves() bool {
	return slices.Contains([]Kind{NoUploads, Generous, Lasting, Hasty, Homesick}, b)
}

// Gangs says whether the break is of something that only gangs have.
func (b Kind) Gangs() bool { return b == Herd || b == Headless || b == Circling || b == Overcommitted }

// Serves says whether the break is of something that only services have.
func (b Kind) Serves() bool { return b == Abandoned || b == Boastful || b == Versionless }

// Policies says whether the break is of something that takes a policy.
func (b Kind) Policies() bool { return slices.Contains([]Kind{Nightless, Nameless}, b) }

// Keep is how many checkpoints an agent keeps that would keep n.
func (b Kind) Keep(n int) int {
	if b == Forgetful {
		return 0
	}
	return n
}
