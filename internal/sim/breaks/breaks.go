// Package breaks lists the bugs that the simulator can inject into the system under test, to show that the invariants
// detect them. It has their names, the effects of a broken store and broken functions on transactions, and the kinds
// of worlds in which a bug has an effect. Most bugs are a single line of package sim, at the place that they break,
// and are not in this package.
package breaks

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Kind is a bug that is injected on purpose, to show that the invariants detect it. The zero value injects none.
type Kind string

// The bugs.
const (
	// NoOutbox: events are not written with the records.
	NoOutbox Kind = "no-outbox"
	// NoSeen: handled events are not remembered, so a repeated delivery is handled again.
	NoSeen Kind = "no-seen"
	// NoConditions: transactions ignore expected versions.
	NoConditions Kind = "no-conditions"
	// NoToken: a repeated launch buys again.
	NoToken Kind = "no-token"
	// NoBlock: failed locations are not remembered.
	NoBlock Kind = "no-block"
	// NoTerminate: terminated machines keep running.
	NoTerminate Kind = "no-terminate"
	// LossyBus: the bus accepts a message but loses it.
	LossyBus Kind = "lossy-bus"
	// NoReconcile: reconcile never runs, so unfinished work is never cleaned up.
	NoReconcile Kind = "no-reconcile"
	// NoBudget: the broker forgets the budgets of jobs.
	NoBudget Kind = "no-budget"
	// Forgetful: agents delete a checkpoint after the broker has recorded it.
	Forgetful Kind = "forgetful"
	// NoPartitions: machines of pools are assigned without a check that their partition has not changed since it was
	// read.
	NoPartitions Kind = "no-partitions"
	// NoGang: the broker forgets the gang of a task.
	NoGang Kind = "no-gang"
	// Loners: the broker forgets that a task joins a gang and must not start without it.
	Loners Kind = "loners"
	// Herd: the broker forgets that a role restarts without the rest of its gang.
	Herd Kind = "herd"
	// Headless: the success of a gang's chief is not reported to its gang.
	Headless Kind = "headless"
	// NoHold: sessions do not lock the other queues that share a quota with theirs. The usage of these queues may
	// have changed since it was read.
	NoHold Kind = "no-hold"
	// OldPrice: the broker forgets current spot prices, and charges a machine at the price at its purchase.
	OldPrice Kind = "old-price"
	// Overtaking: overdue tasks are overtaken in their queue.
	Overtaking Kind = "overtaking"
	// Swinging: the broker forgets for which task it stopped other tasks, so two tasks can stop each other again and
	// again.
	Swinging Kind = "swinging"
	// Stuck: jobs are never advanced.
	Stuck Kind = "stuck"
	// NoUploads: started uploads are not recorded.
	NoUploads Kind = "no-uploads"
	// Generous: agents get grants for any object. Lasting: they get grants at any time.
	Generous Kind = "generous"
	Lasting  Kind = "lasting"
	// Hasty: agents report an object as stored when they have only started to send it.
	Hasty Kind = "hasty"
	// Homesick: the stores of places are unknown.
	Homesick Kind = "homesick"
	// Careless: drivers do not report that a failed launch created machines, and leave them running.
	Careless Kind = "careless"
	// Stale: lists of clouds lag for longer than the broker allows for.
	Stale Kind = "stale"
	// Deaf: notices of clouds are not handled.
	Deaf Kind = "deaf"
	// Asleep: a resting job is not woken when it holds something.
	Asleep Kind = "asleep"
	// Unmeasured: the broker forgets the resources that queues use, except vCPUs.
	Unmeasured Kind = "unmeasured"
	// Fleeting: the broker forgets to keep the machines of a failed task.
	Fleeting Kind = "fleeting"
	// Crowding: usage of an account's reserved machines is not recorded.
	Crowding Kind = "crowding"
	// Overcommitted: the broker forgets the part of a commitment that a gang uses, and counts one machine.
	Overcommitted Kind = "overcommitted"
	// Circling: the broker forgets that a reservation was full, so a gang that found no room there tries it again at
	// once.
	Circling Kind = "circling"
	// Impatient: the broker forgets that a job waits for blocks to end.
	Impatient Kind = "impatient"
	// Restless: the broker forgets that jobs are suspended.
	Restless Kind = "restless"
	// Nameless: the broker forgets how much of a queue each namespace uses.
	Nameless Kind = "nameless"
	// Nightless: the broker forgets the hours in which machines are available.
	Nightless Kind = "nightless"
	// Spendthrift: the broker forgets the spending of a month. Hoarding: it forgets the reserved part of the budget.
	Spendthrift Kind = "spendthrift"
	Hoarding    Kind = "hoarding"
	// Roomless: the broker forgets for which task it keeps room on machines while it moves running tasks.
	Roomless Kind = "roomless"
	// Mingling: the broker forgets where tasks with placement rules run.
	Mingling Kind = "mingling"
	// Abandoned: the broker forgets that a job has services, so it does not replace their replicas. Boastful:
	// replicas report that they are ready before they are.
	Abandoned Kind = "abandoned"
	Boastful  Kind = "boastful"
	// Versionless: the broker forgets which version of a service a replica runs.
	Versionless Kind = "versionless"
	// Tireless: the broker forgets how often a task has killed the agents of its machines.
	Tireless Kind = "tireless"
	// Hopeful: the broker forgets how much work a task has lost on spot machines.
	Hopeful Kind = "hopeful"
	// Content: reconcile skips a queue if each of its waiting jobs holds machines.
	Content Kind = "content"
	// Rushing: the broker forgets how many members of an array may run at the same time.
	Rushing Kind = "rushing"
	// Boasting: workers of jobs report twice their actual size. Clinging: workers do not leave when the broker does
	// not need them any more.
	Boasting Kind = "boasting"
	Clinging Kind = "clinging"
	// Unhired: the broker loses the requests of sessions for workers.
	Unhired Kind = "unhired"
	// Haunted: workers whose machines have ended stay in the pools of their jobs.
	Haunted Kind = "haunted"
	// Squatting: tasks that have ended keep their room on the workers of their jobs.
	Squatting Kind = "squatting"
	// Presuming: agents report members of a chunk as succeeded that they have not run. Unlisted: the broker forgets
	// which members have succeeded in the attempt of another.
	Presuming Kind = "presuming"
	Unlisted  Kind = "unlisted"
	// Communal: the workers of all jobs are in one record.
	Communal Kind = "communal"
	// For brokers without an address. Shredding: messages are removed before they are answered. Littering: answers
	// are never removed. Chatty: an agent that repeats a call writes another message.
	Shredding Kind = "shredding"
	Littering Kind = "littering"
	Chatty    Kind = "chatty"
	// Hurried: the broker gives up agents that have not called for a quarter of an hour.
	Hurried Kind = "hurried"
	// Amnesiac: a broker of an older version drops the members of records that it does not know.
	Amnesiac Kind = "amnesiac"
	// Thoughtless: the broker forgets what a finished job held. Reaping: it makes the records of running jobs expire.
	Thoughtless Kind = "thoughtless"
	Reaping     Kind = "reaping"
	// On managed services. Lingering: places are never ended, and do not end by themselves when they are idle.
	// Repeating: an application that is submitted again runs again. Oblivious: the broker does not see that a place has
	// ended. Undated: it forgets when a place was made.
	Lingering Kind = "lingering"
	Repeating Kind = "repeating"
	Oblivious Kind = "oblivious"
	Undated   Kind = "undated"
	// Ungated: two queues admit tasks under the limit of the deployment at the same time.
	Ungated Kind = "ungated"
)

// All returns all bugs.
func All() []Kind {
	return []Kind{NoOutbox, NoSeen, NoConditions, NoToken, NoBlock, NoTerminate, LossyBus, NoReconcile, NoBudget,
		Forgetful, Overtaking, NoPartitions, NoGang, Loners, Herd, Headless, NoHold, OldPrice, Swinging, Asleep,
		Stuck, NoUploads, Generous, Lasting, Hasty, Homesick, Careless, Stale, Deaf, Restless, Unmeasured,
		Fleeting, Crowding, Overcommitted, Circling, Impatient, Nameless, Nightless, Mingling, Spendthrift, Hoarding,
		Abandoned, Boastful, Versionless, Tireless, Roomless, Hopeful, Content, Rushing, Boasting, Clinging,
		Unhired, Haunted, Squatting, Communal, Shredding, Littering, Chatty, Hurried, Amnesiac, Thoughtless, Reaping,
		Ungated, Presuming, Unlisted, Lingering, Repeating, Oblivious, Undated}
}

// forgotten lists the fields that a broken store loses: the records that have them, and the texts at their start and
// end.
var forgotten = map[Kind]struct{ of, from, to string }{
	NoBudget:    {"job", `"budgetUSD":`, ","},
	NoGang:      {"task#", `,"gang":"`, `"`},
	Loners:      {"task#", `,"joins":"`, `"`},
	Impatient:   {"job", `,"infeasible":"retr`, `"`},
	Fleeting:    {"cluster#", `,"keptUntil":"`, `"`},
	Versionless: {"cluster#", `"spec":`, ","},
	Abandoned:   {"job", `,"serves":tru`, "e"},
	Tireless:    {"task#", `"silent":`, ","},
	Hopeful:     {"task#", `"lostHours":`, ","},
	Rushing:     {"job", `"maxParallel":`, ","},
}

// unwritten lists the records that a broken store does not write.
var unwritten = map[Kind]string{NoSeen: "seen#", Crowding: record.PartHeld, NoBlock: "blocks", OldPrice: "market",
	Ungated: record.PartQueueGate}

// StoreTx returns the transaction as a broken store applies it.
func (b Kind) StoreTx(tx store.Tx) store.Tx {
	if f, ok := forgotten[b]; ok {
		return WithoutField(tx, f.of, f.from, f.to)
	}
	if of, ok := unwritten[b]; ok {
		return Without(tx, of)
	}
	switch b {
	case NoOutbox:
		return store.Tx{Writes: tx.Writes}
	case Overcommitted:
		return AsOne(tx, func(k store.Key) bool {
			return k.Partition == record.PartHeld && strings.Contains(k.Sort, planner.Committed)
		})
	case Mingling:
		return Drop(tx, func(w store.Write) bool {
			return w.Key.Partition == record.PartStands || w.Key.Sort == "stands"
		})
	case Swinging:
		return WithoutField(WithoutField(tx, "task#", `,"yieldedTo":[`, "]"), "", `,"claims":[`, "]")
	case Asleep:
		return Drop(tx, func(w store.Write) bool {
			return w.Key.Partition == record.PartActive && w.Op == store.Put && w.Expect != store.Absent &&
				!bytes.Contains(w.Body, []byte(`"restsUntil"`))
		})
	case NoUploads:
		return Drop(tx, func(w store.Write) bool { return strings.HasPrefix(w.Key.Sort, "upload#") })
	case Squatting, Communal:
		return b.onWorkers(tx)
	case NoHold:
		return Drop(tx,
			func(w store.Write) bool { return w.Op == store.Check && w.Key.Partition == "queues" })
	case NoPartitions:
		return Unconditional(tx, "pool#")
	case NoConditions:
		tx = Drop(tx, func(w store.Write) bool { return w.Op == store.Check })
		for i := range tx.Writes {
			tx.Writes[i].Expect = store.Any
		}
		return tx
	default:
		return tx
	}
}

// FunctionTx returns the transaction that a broken function makes. The checker gets this transaction and does not
// know the correct one.
func (b Kind) FunctionTx(tx store.Tx) store.Tx {
	switch b {
	case Herd:
		return WithoutField(tx, "task#", `,"alone":tru`, "e")
	case Undated:
		return undated(tx)
	case Unmeasured:
		return WithoutField(tx, "", `,"use":{`, "}")
	case Nameless:
		return WithoutField(tx, "", `,"spaces":[`, "]")
	case Spendthrift:
		return WithoutField(tx, "", `,"month":{`, "}")
	case Hoarding:
		return WithoutField(tx, "attempt#", `,"monthly":tru`, "e")
	case Thoughtless:
		return WithoutField(tx, "job", `,"held":[`, "]")
	case Reaping:
		return expiring(tx)
	case Nightless:
		return WithoutField(tx, "", `,"window":"`, `"`)
	case Roomless:
		for range roomless {
			tx = WithoutField(tx, "", `,"promises":[`, "]")
		}
		return tx
	case Circling:
		return Drop(tx, func(w store.Write) bool {
			return w.Key.Partition == "blocks" && bytes.Contains(w.Body, []byte("machines of the reservation"))
		})
	case Haunted:
		return withoutRemoval(tx)
	case Unlisted:
		tx.Events = slices.Clone(tx.Events)
		for i := range tx.Events {
			tx.Events[i].Body = cutField(tx.Events[i].Body, `,"also":[`, "]")
		}
		return tx
	case Restless:
		return WithoutField(tx, "job", `,"suspensions":[`, "]")
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

// expiring returns the transaction with a step to let the records of a job expire, if it changes a job that runs.
func expiring(tx store.Tx) store.Tx {
	for i := range tx.Writes {
		id, ofJob := strings.CutPrefix(tx.Writes[i].Key.Partition, "job#")
		if !ofJob || tx.Writes[i].Key.Sort != "job" || !bytes.Contains(tx.Writes[i].Body, []byte(`"state":"running"`)) {
			continue
		}
		tx.Writes = append(slices.Clone(tx.Writes), store.Write{
			Key: record.ExpiryKey(id, time.Unix(0, 0)), Expect: store.Any,
			Body: []byte(`{"job":"` + id + `","expires":"2030-01-01T00:00:00Z"}`),
		})
		return tx
	}
	return tx
}

// withoutRemoval returns the transaction without its changes of jobs' pools, if the transaction removes a cluster.
func withoutRemoval(tx store.Tx) store.Tx {
	if !slices.ContainsFunc(tx.Writes, func(w store.Write) bool {
		return w.Op == store.Delete && strings.HasPrefix(w.Key.Sort, record.ClusterPrefix)
	}) {
		return tx
	}
	return Drop(tx, func(w store.Write) bool { return strings.HasPrefix(w.Key.Partition, workers) })
}

// workers precedes the ID of a job in the partition of its workers.
var workers = record.PoolPart(record.JobPool(""))

// rekeyed returns the transaction with the keys of a broken store.
func (b Kind) rekeyed(tx store.Tx) store.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i := range tx.Writes {
		tx.Writes[i].Key = b.Key(tx.Writes[i].Key)
	}
	return tx
}

// Key returns the key at which a broken store keeps a record.
func (b Kind) Key(k store.Key) store.Key {
	if b == Communal && strings.HasPrefix(k.Partition, workers) {
		k.Partition = workers + "all"
	}
	return k
}

// roomless is the number of machines per record whose promises are lost.
const roomless = 8

// Moves reports whether the bug needs a world that moves data.
func (b Kind) Moves() bool {
	return slices.Contains([]Kind{NoUploads, Generous, Lasting, Hasty, Homesick}, b)
}

// Gangs reports whether the bug needs gangs.
func (b Kind) Gangs() bool { return b == Herd || b == Headless || b == Circling || b == Overcommitted }

// Serves reports whether the bug needs services.
func (b Kind) Serves() bool { return b == Abandoned || b == Boastful || b == Versionless }

// Policies reports whether the bug needs a policy.
func (b Kind) Policies() bool { return slices.Contains([]Kind{Nightless, Nameless}, b) }

// onWorkers returns the transaction as a store with a bug for workers applies it.
func (b Kind) onWorkers(tx store.Tx) store.Tx {
	if b == Communal {
		return b.rekeyed(tx)
	}
	if !slices.ContainsFunc(tx.Writes, isEndOfCluster) {
		return tx
	}
	return Drop(tx, func(w store.Write) bool { return strings.HasPrefix(w.Key.Partition, workers) })
}

// isEndOfCluster reports whether a write removes a cluster.
func isEndOfCluster(w store.Write) bool {
	_, cluster := record.ClusterOf(w.Key)
	return cluster && w.Op == store.Delete
}

// undated returns the transaction without the times at which places of managed services were made.
func undated(tx store.Tx) store.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i := range tx.Writes {
		if w := &tx.Writes[i]; strings.HasPrefix(w.Key.Sort, record.ClusterPrefix) &&
			bytes.Contains(w.Body, []byte(`"service":"`)) {
			w.Body = cutField(w.Body, `,"launched":"`, `"`)
		}
	}
	return tx
}

// Shares reports whether the bug needs tasks that share machines.
func (b Kind) Shares() bool {
	return slices.Contains([]Kind{Boasting, Clinging, Unhired, Haunted, Squatting, Communal}, b) || b.Chunks()
}

// Managed reports whether the bug needs managed services.
func (b Kind) Managed() bool {
	return slices.Contains([]Kind{Lingering, Repeating, Oblivious, Undated}, b)
}

// Chunks reports whether the bug needs members of arrays that run in chunks.
func (b Kind) Chunks() bool { return b == Presuming || b == Unlisted }

// Mails reports whether the bug needs a broker without an address.
func (b Kind) Mails() bool { return slices.Contains([]Kind{Shredding, Littering, Chatty}, b) }

// Keep returns how many checkpoints an agent keeps that should keep n.
func (b Kind) Keep(n int) int {
	if b == Forgetful {
		return 0
	}
	return n
}
