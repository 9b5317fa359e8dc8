package sim

import (
	"slices"
	"strconv"
)

// bucket is the store for checkpoints. A checkpoint is the fraction of the work that it contains.
type bucket struct {
	checkpoints map[string][]saved // by the task's prefix
	accepted    map[string]float64 // by the task's prefix: the largest progress that the broker has recorded
}

type saved struct {
	uri      string
	seq      int
	progress float64
}

func newBucket() *bucket {
	return &bucket{checkpoints: map[string][]saved{}, accepted: map[string]float64{}}
}

func (b *bucket) save(task string, s saved) { b.checkpoints[task] = append(b.checkpoints[task], s) }

// load returns the checkpoint of a task with a URI.
func (b *bucket) load(task, uri string) (saved, bool) {
	list := b.checkpoints[task]
	if i := slices.IndexFunc(list, func(s saved) bool { return s.uri == uri }); i >= 0 {
		return list[i], true
	}
	return saved{}, false
}

// keepCheckpoints is the number of checkpoints that an agent keeps: the last one and the one before it.
const keepCheckpoints = 2

// accept is called when the broker has recorded a checkpoint. The agent then deletes older checkpoints of any
// attempt, except the one from which this attempt started: other nodes may still have to read that one.
func (b *bucket) accept(task string, s saved, keep int, begun string) {
	b.accepted[task] = max(b.accepted[task], s.progress)
	b.checkpoints[task] = slices.DeleteFunc(b.checkpoints[task], func(old saved) bool {
		return old.seq <= s.seq-keep && old.uri != begun
	})
}

func reportID(attempt string, rank, n int) string {
	return attempt + "/" + strconv.Itoa(rank) + "/" + strconv.Itoa(n)
}
