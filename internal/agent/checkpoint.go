package agent

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// saver saves a task's checkpoint directory, one checkpoint at a time.
//
// While the task runs, the saver first makes a copy of the directory at one moment, so that a file that is being
// written is not saved half old and half new. If the directory keeps changing, no checkpoint is saved. Tasks should
// write a file under a name that ends in .tmp, which checkpoints omit, and then rename it.
type saver struct {
	*attempt
	next  int
	saved string          // fingerprint of the directory when it was last saved
	took  atomic.Int64    // duration of the last upload, nanoseconds; read while another checkpoint is being saved
	noted map[string]bool // messages already logged about files that are left out
}

func (t *attempt) newSaver() *saver {
	s := &saver{attempt: t, noted: map[string]bool{}}
	if t.work.Checkpoint != nil {
		s.next = t.work.Checkpoint.Next
	}
	return s
}

// note logs once that some files are left out of checkpoints.
func (s *saver) note(msg string) {
	if !s.noted[msg] {
		s.noted[msg] = true
		s.out.note("checkpoint: " + msg)
	}
}

// isSaver reports whether this node saves checkpoints. In a task of several nodes only the first does.
func (s *saver) isSaver() bool { return s.work.Checkpoint != nil && s.claims.Rank == 0 }

// schedule saves at intervals until ctx ends.
func (s *saver) schedule(ctx context.Context) {
	if !s.isSaver() || s.work.Checkpoint.Every <= 0 {
		return
	}
	for clock.Pause(ctx, s.work.Checkpoint.Every) == nil {
		if err := s.saveRunning(ctx); err != nil && ctx.Err() == nil {
			s.out.note("no checkpoint was saved: " + err.Error())
			s.log.Warn("no checkpoint was saved", "err", err)
		}
	}
}

// minSnapshotTimeout is the minimum time that a snapshot waits for a directory to stop changing.
const minSnapshotTimeout = 10 * time.Second

// saveRunning saves while the task runs.
func (s *saver) saveRunning(ctx context.Context) error {
	still, cancel := context.WithTimeout(ctx, max(s.work.Checkpoint.Every, minSnapshotTimeout))
	defer cancel()
	print, err := stage.Snapshot(still, s.checkpointDir(), s.dirs.snapshot, s.note)
	if err != nil {
		return err
	}
	defer os.RemoveAll(s.dirs.snapshot) //nolint:errcheck // the next one empties it first
	// An attempt that resumes from this checkpoint also needs the data that was written to mounts before it.
	if err := s.mounts.waitUploaded(ctx); err != nil {
		return err
	}
	return s.upload(ctx, s.dirs.snapshot, print)
}

// saveLast saves a checkpoint after the task has ended, when nothing changes any more.
func (s *saver) saveLast(ctx context.Context) error {
	if !s.isSaver() {
		return nil
	}
	print, err := stage.Fingerprint(ctx, s.checkpointDir(), s.note)
	if err != nil {
		return err
	}
	return s.upload(ctx, s.checkpointDir(), print)
}

// upload stores dir as the next checkpoint and reports it, unless dir is empty or unchanged.
func (s *saver) upload(ctx context.Context, dir, print string) error {
	if print == "" || print == s.saved {
		return nil
	}
	seq, began := s.next, time.Now()
	s.next++ // whether or not it succeeds: files of a failed upload must not mix with the next checkpoint
	prefix := wire.CheckpointPrefix(s.work.Prefix, s.work.Attempt, seq)
	to, err := s.inStore(prefix)
	if err != nil {
		return err
	}
	m, err := s.transfer().Upload(ctx, to, dir, stage.Scan{Ignore: stage.Unfinished, Note: s.note},
		stage.Manifest{Attempt: s.work.Attempt, Nodes: max(len(s.work.Nodes), 1)})
	if err != nil {
		return err
	}
	took := time.Since(began)
	s.saved = print
	s.took.Store(int64(took))
	s.log.Debug("checkpoint saved", "prefix", prefix, "bytes", m.Bytes(), "took", took)
	s.reports.add(wire.Report{Event: wire.Checkpointed, Seq: seq, Prefix: prefix}, func() {
		s.wg.Go(s.prune)
	})
	return nil
}

// reserve returns the part of the remaining time to keep for the upload: twice the duration of the last upload, at
// least a quarter of the time, and at most three quarters.
func (s *saver) reserve(left time.Duration) time.Duration {
	if !s.isSaver() {
		if s.mounts.writable() {
			return left / 4
		}
		return 0
	}
	return min(max(left/4, 2*time.Duration(s.took.Load())), left*3/4)
}

// prune requests the removal of older checkpoints. It is called when the broker has accepted a newer one.
func (s *saver) prune() {
	ctx, cancel := context.WithTimeout(s.unlessStopped, callTimeout)
	defer cancel()
	if err := (grants{s.attempt}).prune(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("cannot remove old checkpoints", "err", err)
	}
}
