package bolt

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// run is the committer: the one goroutine that writes.
func (f *File) run() {
	defer close(f.ended)
	for range f.queue.wake {
		for group, more := f.queue.nextGroup(); more; group, more = f.queue.nextGroup() {
			if !f.commit(group) {
				break
			}
			f.queue.waitForCallers(len(group))
		}
		if f.queue.drained() {
			return
		}
	}
}

// commit runs a group of changes in one bbolt transaction and reports the outcome to each task.
// It returns false if the committer should wait a while before the next attempt.
func (f *File) commit(group []*task) bool {
	if len(group) == 0 { // all were withdrawn
		return true
	}
	err := f.queue.failure()
	switch {
	case err != nil:
	case group[0].alone != nil:
		group[0].finish(group[0].alone())
		return true
	default:
		err = f.runChanges(group)
	}
	return f.finishTasks(group, err)
}

// runChanges runs the changes in order; each sees the writes of those before it. A change that fails
// gets its error in task.err. The returned error applies to all other changes.
func (f *File) runChanges(group []*task) error {
	base, err := f.db.Begin(true)
	if err != nil {
		return closedOr(err)
	}
	tx := &Tx{bucket: base.Bucket(dataBucket)}
	written := false
	for _, t := range group {
		var broken bool
		if broken, t.err = tx.run(t.change); broken {
			return errors.Join(t.err, base.Rollback())
		}
		written = written || t.err == nil && len(tx.writes) > 0
	}
	if !written {
		if err := base.Rollback(); err != nil {
			return fmt.Errorf("bolt: %w", err)
		}
		return nil
	}
	id := base.ID()
	if err := base.Commit(); err != nil {
		return f.checkFailedCommit(id, err)
	}
	f.stats.groups.Add(1)
	return nil
}

// checkFailedCommit determines the content of the file after a failed commit. bbolt makes a transaction valid with the
// last page it writes. If that page was not written, the file is as before. If it was written, it is unknown whether
// the disk has it, and the file must not be written any more.
func (f *File) checkFailedCommit(id int, cause error) error {
	err := f.db.View(func(tx *bbolt.Tx) error {
		if tx.ID() >= id {
			return errUnknown
		}
		return nil
	})
	if err != nil {
		f.queue.fail(errors.Join(cause, err))
		return f.queue.failure()
	}
	return fmt.Errorf("bolt: commit: %w", cause)
}

// errUnknown: the written data may or may not be on the disk.
var errUnknown = errors.New("it is unknown whether the last write reached the disk")

// finishTasks finishes tasks. If the commit failed, deferred tasks that may succeed later are put back
// at the front of the queue; conclude then returns false.
func (f *File) finishTasks(group []*task, err error) bool {
	var back []*task
	for _, t := range group {
		switch {
		case t.err != nil:
			t.finish(t.err)
		case err == nil:
			f.stats.changes.Add(1)
			if t.committed != nil {
				t.committed()
			}
			t.finish(nil)
		case t.done == nil:
			back = append(back, t)
		default:
			t.finish(err)
		}
	}
	return len(back) == 0 || !f.queue.putBack(back)
}
