package jobstate

import (
	"bytes"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// Where each call costs money, short members of an array run in chunks. The members of a chunk are announced,
// admitted and reported together, and run one after the other in one attempt. Chunks get smaller towards the end of
// the array, so that all workers end at about the same time (guided self-scheduling: Polychronopoulos and Kuck, IEEE
// Transactions on Computers 36, 1987).

const (
	// chunkMost is the maximum number of members of a chunk. The ends of all its members have to fit into one
	// transaction.
	chunkMost = 16
	// chunkedFor is the maximum run time of members that run in chunks. The calls of longer members cost little in
	// comparison.
	chunkedFor = time.Minute
)

// chunks decides the number of members in the next chunk of each array.
type chunks struct {
	st      Advancing
	most    []int // by array; 0: not calculated yet
	waiting []int // number of members that are not announced, without the one that is about to be
}

func newChunks(st Advancing) *chunks {
	return &chunks{st: st, most: make([]int, len(st.Job.Arrays)), waiting: make([]int, len(st.Job.Arrays))}
}

// after returns the number of waiting members that join the chunk of an announced one.
func (c *chunks) after(task int) (n int) {
	k := c.st.Job.ArrayOf(task)
	if k < 0 || c.st.ChunkFor <= 0 || k >= len(c.st.Slots) || c.st.Slots[k] == 0 {
		return 0
	}
	a, phases := &c.st.Job.Arrays[k], c.st.Progress.Phases
	if c.most[k] == 0 {
		c.most[k] = mostOfChunk(c.st, k)
		c.waiting[k] = bytes.Count(phases[a.First:a.First+a.Size], []byte{record.PhaseWaiting})
	}
	most := min(c.most[k], (1+c.waiting[k])/c.st.Slots[k])
	for i := task + 1; i < a.First+a.Size && phases[i] == record.PhaseWaiting && n+1 < most; i++ {
		n++
	}
	c.waiting[k] -= n + 1
	return n
}

// mostOfChunk returns the maximum number of members of an array's chunk, at least 1. Members that save checkpoints
// have their own attempts. So do members that depend on single members of another array, or that single members of
// another array depend on.
func mostOfChunk(st Advancing, array int) int {
	a := &st.Job.Arrays[array]
	t := &st.Spec.Tasks[a.First]
	took, alone := t.Time.Default, t.Checkpoint != nil || t.StandIn() || a.MaxParallel > 0 || st.Spec.KeepOnFailure > 0
	if alone || took <= 0 || took > chunkedFor {
		return 1
	}
	each := func(k int32) bool { return st.Spec.Edges[k].Each }
	if slices.ContainsFunc(st.Spec.EdgesTo(a.First), each) || slices.ContainsFunc(st.Spec.EdgesFrom(a.First), each) {
		return 1
	}
	return max(1, min(chunkMost, int(st.ChunkFor/took)))
}

// dissolve makes members of a chunk independent: each is announced for its own attempt. past is the number of the
// attempt in which they should have run.
func dissolve(st Advancing, members []int, past int, d *record.Decision) {
	for _, i := range members {
		if i < 0 || i >= st.Job.Tasks || st.Progress.Phases[i] != record.PhaseChunked {
			continue
		}
		st.Progress.Phases[i] = record.PhaseReady
		d.Emit(events.TaskReady{Job: st.Job.ID, Task: i, Queue: st.Job.Queue, Try: 1, Past: past})
	}
}

// chunkOf returns the other members of a task's chunk.
func chunkOf(phases []record.Phase, task int) (members []int) {
	for i := task + 1; i < len(phases) && phases[i] == record.PhaseChunked; i++ {
		members = append(members, i)
	}
	return members
}
