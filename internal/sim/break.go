package sim

import (
	"bytes"
	"slices"
	"strings"

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
)

// Breaks returns all of them.
func Breaks() []Break {
	return []Break{NoOutbox, NoSeen, NoConditions, NoToken, NoBlock, NoTerminate, LossyBus, NoReconcile, NoBudget,
		Forgetful, Overtaking, NoPartitions, NoGang, Loners, NoHold, OldPrice, Swinging, Asleep,
		Stuck, NoUploads, Generous, Lasting, Hasty, Homesick, Careless, Stale, Deaf}
}

// tx is what a broken store makes of a transaction.
func (b Break) tx(tx store.Tx) store.Tx {
	switch b {
	case NoOutbox:
		return store.Tx{Writes: tx.Writes}
	case NoSeen:
		return without(tx, "seen#")
	case NoBlock:
		return without(tx, "blocks")
	case Swinging:
		return withoutField(withoutField(tx, "task#", `,"yieldedTo":[`, "]"), "", `,"claims":[`, "]")
	case Asleep:
		tx.Writes = slices.DeleteFunc(slices.Clone(tx.Writes), func(w store.Write) bool {
			return w.Key.Partition == record.PartActive && w.Op == store.Put && w.Expect != store.Absent &&
				!bytes.Contains(w.Body, []byte(`"restsUntil"`))
		})
		return tx
	case NoUploads:
		tx.Writes = slices.DeleteFunc(slices.Clone(tx.Writes), func(w store.Write) bool {
			return strings.HasPrefix(w.Key.Sort, "upload#")
		})
		return tx
	case NoBudget:
		return withoutField(tx, "job", `"budgetUSD":`, ",")
	case NoGang:
		return withoutField(tx, "task#", `,"gang":"`, `"`)
	case Loners:
		return withoutField(tx, "task#", `,"joins":"`, `"`)
	case OldPrice:
		return without(tx, "market")
	case NoHold:
		tx.Writes = slices.DeleteFunc(slices.Clone(tx.Writes), func(w store.Write) bool {
			return w.Op == store.Check && w.Key.Partition == "queues"
		})
		return tx
	case NoPartitions:
		return unconditional(tx, "pool#")
	case NoConditions:
		tx.Writes = slices.DeleteFunc(slices.Clone(tx.Writes), func(w store.Write) bool { return w.Op == store.Check })
		for i := range tx.Writes {
			tx.Writes[i].Expect = store.Any
		}
		return tx
	default:
		return tx
	}
}

// unconditional has the records of some partitions written whatever version is expected.
func unconditional(tx store.Tx, partition string) store.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i := range tx.Writes {
		if w := &tx.Writes[i]; strings.HasPrefix(w.Key.Partition, partition) && w.Op != store.Check {
			w.Expect = store.Any
		}
	}
	return tx
}

func without(tx store.Tx, partition string) store.Tx {
	tx.Writes = slices.DeleteFunc(slices.Clone(tx.Writes), func(w store.Write) bool {
		return strings.HasPrefix(w.Key.Partition, partition)
	})
	return tx
}

// withoutField removes a field, from how it begins to how it ends, of the records whose sort key begins so.
func withoutField(tx store.Tx, sort, field, end string) store.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i := range tx.Writes {
		w := &tx.Writes[i]
		before, rest, found := bytes.Cut(w.Body, []byte(field))
		if strings.HasPrefix(w.Key.Sort, sort) && found {
			_, after, _ := bytes.Cut(rest, []byte(end))
			w.Body = slices.Concat(before, after)
		}
	}
	return tx
}

// moves says whether the break is of something that takes moving data.
func (b Break) moves() bool {
	return slices.Contains([]Break{NoUploads, Generous, Lasting, Hasty, Homesick}, b)
}

// keep is how many checkpoints an agent keeps.
func (b Break) keep() int {
	if b == Forgetful {
		return 0
	}
	return keepCheckpoints
}
