package agent

import (
	"context"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/stage"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/clock"
)

// keepCheckpoints is how many checkpoints are kept: the last, and the one before it in case somebody is reading that.
const keepCheckpoints = 2

// saver saves a task's checkpoint directory, one checkpoint at a time.
//
// While the task runs, the directory is first copied as it was at one moment, so that a file that is written to
// meanwhile does not tear; a directory that does not keep still gets no checkpoint. Tasks do best to write a file under
// a name that ends in .tmp, which is left out, and to rename it.
type saver struct {
	*attempt
	next  int
	saved string        // fingerprint of the directory when it was last saved
	took  time.Duration // to upload it
}

func (t *attempt) newSaver() *saver {
	s := &saver{attempt: t}
	if t.work.Checkpoint != nil {
		s.next = t.work.Checkpoint.Next
	}
	return s
}

// saves says whether this node saves: in a task of several, the first does.
func (s *saver) saves() bool { return s.work.Checkpoint != nil && s.claims.Rank == 0 }

// schedule saves at intervals until ctx ends.
func (s *saver) schedule(ctx context.Context) {
	if !s.saves() || s.work.Checkpoint.Every <= 0 {
		return
	}
	for clock.Pause(ctx, s.work.Checkpoint.Every) == nil {
		if err := s.saveRunning(ctx); err != nil && ctx.Err() == nil {
			s.out.note("no checkpoint was saved: " + err.Error())
			s.log.Warn("no checkpoint was saved", "err", err)
		}
	}
}

// patienceWithChange is how long, at least, a directory may take to keep still.
const patienceWithChange = 10 * time.Second

// saveRunning saves while the task runs.
func (s *saver) saveRunning(ctx context.Context) error {
	still, cancel := context.WithTimeout(ctx, max(s.work.Checkpoint.Every, patienceWithChange))
	defer cancel()
	print, err := stage.Snapshot(still, s.checkpointDir(), s.dirs.snapshot)
	if err != nil {
		return err
	}
	return s.upload(ctx, s.dirs.snapshot, print)
}

// saveLast saves after the task ended: nothing changes any more.
func (s *saver) saveLast(ctx context.Context) error {
	if !s.saves() {
		return nil
	}
	print, err := stage.Fingerprint(ctx, s.checkpointDir())
	if err != nil {
		return err
	}
	return s.upload(ctx, s.checkpointDir(), print)
}

// upload keeps dir as the next checkpoint and reports it, unless there is nothing in it or nothing new.
func (s *saver) upload(ctx context.Context, dir, print string) error {
	if print == "" || print == s.saved {
		return nil
	}
	b, err := s.cfg.Buckets.Open(ctx, s.work.Store)
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // only read
	seq, began := s.next, time.Now()
	s.next++ // whether or not it succeeds: what is left of a failure must not be mixed with the next
	prefix := wire.CheckpointPrefix(s.work.Prefix, s.work.Attempt, seq)
	m, err := s.cfg.Transfer.Upload(ctx, b, prefix, dir, stage.Scan{Ignore: stage.Unfinished, Note: s.out.note},
		stage.Manifest{Attempt: s.work.Attempt, Nodes: max(len(s.work.Nodes), 1)})
	if err != nil {
		return err
	}
	s.saved, s.took = print, time.Since(began)
	s.log.Debug("checkpoint saved", "prefix", prefix, "bytes", m.Bytes(), "took", s.took)
	s.reports.add(wire.Report{Event: wire.Checkpointed, Seq: seq, Prefix: prefix}, func() {
		s.wg.Go(func() { s.prune(seq) })
	})
	return nil
}

// reserve is how much of what is left must be kept for the upload: judged by the last one, a quarter to begin with,
// never more than most.
func (s *saver) reserve(left time.Duration) time.Duration {
	if !s.saves() {
		return 0
	}
	return min(max(left/4, 2*s.took), left*3/4)
}

// prune removes older checkpoints. It is called when the broker has accepted seq: an attempt that was replaced
// without knowing is not heard any more, and must not remove what its successor restores. What this attempt resumed
// from stays while other nodes may still have to read it: one that is late begins where the others have begun.
func (s *saver) prune(seq int) {
	begun := path.Base(s.work.Checkpoint.Restore)
	ctx, cancel := context.WithTimeout(s.unlessStopped, callTimeout)
	defer cancel()
	b, err := s.cfg.Buckets.Open(ctx, s.work.Store)
	if err == nil {
		defer b.Close() //nolint:errcheck // only read
		err = stage.Prune(ctx, b, path.Join(s.work.Prefix, "ckpt"), func(name string) bool {
			number, _, _ := strings.Cut(name, "-")
			n, err := strconv.Atoi(number)
			return err == nil && n <= seq-keepCheckpoints && (name != begun || len(s.work.Nodes) <= 1)
		})
	}
	if err != nil {
		s.log.Warn("cannot remove old checkpoints", "err", err)
	}
}
