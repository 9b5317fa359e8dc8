package host

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// defaultReserve returns the space that stays free by default on a disk of a size, in bytes: 2 % of it, at most 1
// GiB.
func defaultReserve(total int64) int64 { return min(total/50, 1<<30) }

// lookAtDisk is the interval of checks of the free space, in wall time.
const lookAtDisk = 5 * time.Second

// diskGuard pauses the admission of tasks while the disk of the state folder is nearly full. Running tasks continue:
// their outputs, logs and records may need the rest. Admission resumes by itself when there is a quarter more free
// space than the reserve.
type diskGuard struct {
	dir     string
	reserve int64 // bytes that stay free; 0 is defaultReserve
	space   func(dir string) (free, total int64, err error)
	log     *slog.Logger
	reason  atomic.Pointer[string] // reason for which admission is paused, or nil
	// reported is set after an error in the log that the disk is full, until admission resumes.
	reported atomic.Bool
}

// FullDisk returns a text about the full disk of a state folder, with a remedy.
func FullDisk(dir string) (what, hint string) {
	left := ""
	if free, _, err := files.Space(dir); err == nil {
		left = fmt.Sprintf(": %d KiB free", free>>10)
	}
	return fmt.Sprintf("the disk of %s is full%s", dir, left),
		"`du -h -d 2 " + dir + "` shows what is large; with some room, `tradewind rm --all-finished " +
			"--older-than 7d` removes finished jobs with their outputs"
}

// paused returns the reason for which no task is admitted, or "" if tasks are admitted.
func (g *diskGuard) paused() string {
	if reason := g.reason.Load(); reason != nil {
		return *reason
	}
	return ""
}

// look checks the disk and returns true if admission resumes. If the disk cannot be read, nothing changes.
func (g *diskGuard) look() (resumed bool) {
	free, total, err := g.space(g.dir)
	if err != nil {
		return false
	}
	reserve := g.reserve
	if reserve == 0 {
		reserve = defaultReserve(total)
	}
	was := g.paused() != ""
	switch {
	case free < reserve || was && free < reserve+reserve/4:
		reason := fmt.Sprintf("no task is admitted: the broker's disk is nearly full (%s has %d MiB free; at least "+
			"%d MiB must be); free some space", g.dir, free>>20, (reserve+reserve/4)>>20)
		g.reason.Store(&reason)
		if !was && !g.reported.Load() {
			g.log.Error("the disk is nearly full: admission is paused", "folder", g.dir, "free_mib", free>>20,
				"reserve_mib", reserve>>20)
		}
		return false
	case was:
		g.reason.Store(nil)
		g.reported.Store(false)
		g.log.Info("the disk has room again: admission resumes", "folder", g.dir, "free_mib", free>>20)
	}
	return was
}

// guardDisk checks the disk until ctx ends, and starts sessions when admission resumes.
func (h *Host) guardDisk(ctx context.Context) {
	for clock.Pause(ctx, lookAtDisk) == nil {
		if !h.disk.look() {
			continue
		}
		if err := h.lookAtQueues(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("some tasks are admitted only when their queue changes", "err", err)
		}
	}
}

// lookAtQueues starts a session for each queue with unfinished jobs.
func (h *Host) lookAtQueues(ctx context.Context) error {
	ids, err := h.broker.Functions.ActiveJobs(ctx)
	if err != nil {
		return err
	}
	told := map[string]bool{}
	for _, id := range ids {
		job, err := h.broker.Views.JobView(ctx, id)
		if err != nil {
			return err
		}
		if told[job.Queue] {
			continue
		}
		told[job.Queue] = true
		id := fmt.Sprintf("disk-%d-%s", h.clock.Now().UnixNano(), job.Queue)
		err = h.broker.Functions.Emit(ctx, "tradewind/disk", id, events.CapacityFreed{Queue: job.Queue})
		if err != nil {
			return err
		}
	}
	return nil
}
