package local

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// watchInterval is the interval, in real time, at which the host checks machines that another host started.
const watchInterval = 250 * time.Millisecond

// adopt takes over the clusters that were found on disk.
func (h *Host) adopt() {
	adopted := false
	for key, cl := range h.clusters {
		cl.stored = true
		cl.ctx, cl.cancel = context.WithCancel(h.ctx)
		if h.terminated[key] { // its termination was interrupted
			for _, m := range cl.machines {
				m.ending = true
			}
			h.background(func() {
				if err := h.terminate(h.ctx, key); err != nil && h.ctx.Err() == nil {
					h.log.Warn("cannot end a cluster", "cluster", key.Cluster, "err", err)
				}
			})
			continue
		}
		h.log.Debug("found a cluster", "cloud", key.Cloud, "cluster", key.Cluster, "machines", len(cl.machines))
		cl.expect()
		adopted = true
	}
	if adopted {
		h.background(h.watch)
	}
}

// expect starts the interruptions in the cluster's record.
func (cl *cluster) expect() {
	for _, m := range cl.machines {
		if !m.record().TakenAt.IsZero() {
			cl.host.background(func() { m.interrupt(cl.ctx) })
		}
	}
}

// interrupt sends the notice of the machine's interruption, and then ends it.
func (m *machine) interrupt(ctx context.Context) {
	h, at := m.cluster.host, m.record().TakenAt
	if h.cfg.Clock.After(ctx, at.Add(-m.record().Notice)) != nil {
		return
	}
	h.mu.Lock()
	ended := m.ended
	h.mu.Unlock()
	if ended {
		return
	}
	notice := cloud.Notice{Cluster: m.cluster.key.Cluster, Machine: m.record().ID, Kind: cloud.Interruption, At: at}
	if m.record().Notice > 0 && h.cfg.Clock.Now().Before(at) {
		h.log.Info("spot machine will be interrupted", "machine", notice.Machine, "at", at)
		h.cfg.Notify(ctx, notice)
	}
	if h.cfg.Clock.After(ctx, at) != nil || !m.take(ctx) {
		return
	}
	h.log.Info("spot machine interrupted", "machine", notice.Machine)
	notice.Kind, notice.At = cloud.Taken, h.cfg.Clock.Now()
	h.cfg.Notify(ctx, notice)
}

// take kills the machine, after recording that the cloud took it. It returns true if the machine is taken now or was
// taken before the host restarted, and false if the machine had already ended by itself.
func (m *machine) take(ctx context.Context) bool {
	h, cl := m.cluster.host, m.cluster
	cl.op.Lock()
	defer cl.op.Unlock()
	if ctx.Err() != nil {
		return false
	}
	h.mu.Lock()
	gone := m.ended && !m.record().Taken // it had already ended
	if !gone {
		m.record().Taken = true
	}
	h.mu.Unlock()
	if gone {
		return false
	}
	if err := cl.store(); err != nil {
		h.log.Warn("cannot record that a machine was interrupted", "machine", m.record().ID, "err", err)
	}
	if err := m.stop(ctx, 0); err != nil {
		h.log.Warn("cannot interrupt a machine", "machine", m.record().ID, "err", err)
		return ctx.Err() == nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m.ended, m.reason = true, reasonTaken
	return true
}

// watch detects the end of machines that are not children of this process.
func (h *Host) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.ctx.Done():
			return
		}
		for _, n := range h.newlyEnded() {
			h.log.Warn("a machine's agent ended by itself", "machine", n.Machine)
			h.cfg.Notify(h.ctx, n)
		}
	}
}

func (h *Host) newlyEnded() []cloud.Notice {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []cloud.Notice
	for _, cl := range h.clusters {
		for _, m := range cl.machines {
			if m.ending || !m.lost() {
				continue
			}
			if m.ended, m.reason = true, m.lostReason(); !m.record().Taken {
				out = append(out, cloud.Notice{Cluster: cl.key.Cluster, Machine: m.record().ID, Kind: cloud.Taken,
					At: h.cfg.Clock.Now()})
			}
		}
	}
	return out
}
