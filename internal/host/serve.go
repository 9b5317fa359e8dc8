package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Serve works until ctx ends, then ends the machines and returns. Unfinished work continues at the next start. If the
// state folder is removed, it ends the machines and returns ErrStateRemoved.
func (h *Host) Serve(ctx context.Context) error {
	TuneMemory()
	defer h.hide()
	server := h.api.Server()
	if len(h.bought.pushes) > 0 {
		server.Handler = push.Handler{Next: server.Handler, Clouds: h.bought.pushes, Log: h.log,
			Deliver: h.emitPushed}
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(h.listen) }()
	asked := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	if !h.opt.Passive {
		h.serveMail(ctx, &wg)
		wg.Go(func() { _ = h.engine.Run(ctx) })
		wg.Go(func() { h.schedules(ctx) })
		wg.Go(func() { h.ticks(ctx) })
		if len(h.bought.services) > 0 {
			wg.Go(func() { h.watchServices(ctx) })
		}
		wg.Go(func() { h.guardDisk(ctx) })
		wg.Go(func() { h.compacts(ctx) })
		if len(h.bought.refresh) > 0 && h.opt.Catalog == "" {
			wg.Go(func() { h.refreshes(ctx) })
		}
		for _, watch := range h.bought.watches {
			wg.Go(func() { watch(ctx, h.emitNotice) })
		}
		for _, pull := range h.bought.pulls {
			wg.Go(func() { pull(ctx, h.emitPushed) })
		}
		wg.Go(func() { h.markTime(ctx) })
		wg.Go(func() { h.sweepPacks(ctx) })
		if h.policy != nil {
			wg.Go(func() {
				if err := h.policy.watch(ctx); err != nil {
					h.log.Error("cannot watch the policy file", "err", err)
				}
			})
		}
		if h.folder != nil {
			wg.Go(func() {
				if err := h.folder.watch(ctx); err != nil {
					h.log.Error("cannot watch the DAG folder", "err", err)
				}
			})
		}
	}
	wg.Go(func() { h.watchToken(ctx) })
	removed := make(chan error, 1)
	go func() { removed <- h.guard.watch(ctx) }()
	var err error
	select {
	case <-asked.Done():
		h.finishNews(ctx)
	case err = <-served:
	case err = <-removed:
		if err != nil {
			h.log.Error("the broker stops and ends its machines", "err", err)
		}
	}
	cancel()
	wg.Wait()
	if !h.opt.Passive {
		stopped := h.stopMachines()
		if stopped == nil {
			h.clearMail()
		}
		err = errors.Join(err, stopped)
		h.removeBuckets()
	}
	stop, done := context.WithTimeout(context.Background(), shutdownWithin)
	defer done()
	if serr := server.Shutdown(stop); serr != nil {
		err = errors.Join(err, server.Close())
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// newsWithin is the maximum time for which a stopping host waits until users have been notified of the ends of jobs.
const newsWithin = 5 * time.Second

// finishNews waits until no notification is outstanding. `tradewind run` ends its host as soon as the job has ended,
// and there may never be another host on this state folder. If there is one, it sends the missing notifications.
func (h *Host) finishNews(ctx context.Context) {
	if h.opt.Passive {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, newsWithin)
	defer cancel()
	for h.hasNews(ctx) {
		if clock.Pause(ctx, 20*time.Millisecond) != nil {
			h.log.Warn("a notification is not sent yet; the next broker on this state folder tries again")
			return
		}
	}
}

// hasNews reports whether an event with news for people waits for the hook function or is being handled by it.
func (h *Host) hasNews(ctx context.Context) bool {
	const most = 1000
	pending, err := h.store.Outbox(ctx, most)
	if err != nil {
		return false
	}
	for _, p := range pending {
		if e, err := events.Parse(p.Body); err == nil && slices.Contains(events.Routes()[e.Type()], events.FnHook) {
			return true
		}
	}
	n, err := h.bus.Depth(ctx, events.FnHook)
	return err == nil && n > 0
}

// softMemory is the heap size (bytes) above which the garbage collector works harder. Below it, it runs less often
// than by default, because a broker makes much garbage and keeps little.
const (
	softMemory  = 256 << 20
	lazyCollect = 400 // per cent, as GOGC
)

// TuneMemory tunes the garbage collector for a broker process, unless the environment already does.
func TuneMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(lazyCollect)
	}
}

const shutdownWithin = 3 * time.Second

// Maximum times for ending the machines: local ones, and bought ones.
const (
	stopWithin       = time.Minute
	stopBoughtWithin = 5 * time.Minute
)

// stopMachines ends all running machines, local and bought, since this host may never be started again. The records
// stay: the next start finds the machines gone and runs their tasks again from the last checkpoint.
func (h *Host) stopMachines() error {
	within := stopWithin
	if len(h.bought.clouds) > 0 {
		within = stopBoughtWithin
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := h.endAll(ctx)
	again := err != nil && len(h.bought.clouds) > 0 // a cloud that did not answer may do so now
	for _, c := range h.bought.clouds {
		if a, ok := c.(*remoteCloud); ok && a.brokenOff() {
			again = true // the list may not yet have the machines of a cancelled launch
		}
	}
	if again {
		if perr := clock.Pause(ctx, listedWithin); perr == nil {
			err = h.endAll(ctx)
		}
	}
	if err == nil && len(h.bought.clouds) > 0 {
		err = h.unclaim()
	}
	return err
}

// listedWithin is the maximum time after which a cloud lists the machines of a cancelled launch.
const listedWithin = 30 * time.Second

// endAll ends all listed machines of a cloud. If the cloud returns no list, it ends those in the records.
func (h *Host) endAll(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(16)
	var errs []error
	for name, c := range h.clouds {
		list, err := c.Machines(ctx, "")
		if err != nil {
			errs = append(errs, fmt.Errorf("machines of %s may still run: %w", name, err))
			list = h.recorded(ctx, name)
		}
		clusters := map[string]bool{}
		for _, m := range list {
			if m.State != cloud.Terminated && !clusters[m.Cluster] {
				clusters[m.Cluster] = true
				group.Go(func() error { return c.Terminate(ctx, m.Cluster) })
			}
		}
	}
	group.Go(func() error { return endPlaces(ctx, h.bought.services) })
	return errors.Join(append(errs, group.Wait())...)
}

// recorded returns the unreleased clusters of a cloud from the records, each as one machine.
func (h *Host) recorded(ctx context.Context, name string) (machines []cloud.Machine) {
	clusters, err := h.broker.Views.Clusters(ctx)
	for _, cl := range clusters {
		if cl.Offer.Cloud == name {
			machines = append(machines, cloud.Machine{Cluster: cl.ID})
		}
	}
	if err != nil {
		h.log.Warn("cannot read which machines still run", "cloud", name, "err", err)
	}
	return machines
}

// Wall time: how soon unfinished work is detected.
const (
	reconcileEvery = 5 * time.Second
	// for clouds that are called over a network and limit the number of calls
	reconcileBoughtEvery = 15 * time.Second
	// If the broker was stopped or its computer slept for longer than awayAfter, it waits for hearWithin before it
	// treats machines as silent. Agents call twice a minute, and keep trying while it is away.
	awayAfter  = time.Minute
	hearWithin = 45 * time.Second
)

// hold returns the time that reconcile waits after a period in which agents of bought machines could not report.
func hold(away time.Duration, bought bool) time.Duration {
	if !bought || away <= awayAfter {
		return 0
	}
	return hearWithin
}

// schedules emits the scheduled events; the first one at once, to clean up after a crash.
func (h *Host) schedules(ctx context.Context) {
	every := reconcileEvery
	if len(h.bought.clouds) > 0 {
		every = reconcileBoughtEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := h.worked
	for {
		// The wall clock continues while a computer sleeps; the monotonic clock does not.
		now := time.Now().Round(0)
		if !last.IsZero() {
			if err := clock.Pause(ctx, hold(now.Sub(last), len(h.bought.clouds) > 0)); err != nil {
				return
			}
		}
		last = time.Now().Round(0)
		id := "reconcile-" + h.clock.Now().UTC().Format(time.RFC3339Nano)
		if err := h.broker.Functions.Emit(ctx, "tradewind/schedule", id, events.BrokerReconcile{}); err != nil &&
			ctx.Err() == nil {
			h.log.Warn("schedule", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// markTime records the virtual time, regularly and at the end.
func (h *Host) markTime(ctx context.Context) {
	ticker := time.NewTicker(markEvery)
	defer ticker.Stop()
	mark := func() {
		if err := h.state.writeJSON("clock.json", clockMark{Virtual: h.clock.Now(), Wall: time.Now()}); err != nil {
			h.log.Warn("clock", "err", err)
		}
	}
	for {
		mark()
		select {
		case <-ctx.Done():
			mark()
			return
		case <-ticker.C:
		}
	}
}

// Close releases the state folder.
func (h *Host) Close() error {
	h.hide()
	var errs []error
	if h.api != nil {
		h.api.Close()
	}
	if h.listen != nil {
		if err := h.listen.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if h.machines != nil {
		errs = append(errs, h.machines.Close())
	}
	if h.packs != nil {
		errs = append(errs, h.packs.Close())
	}
	if h.objects != nil {
		errs = append(errs, h.objects.Close())
	}
	errs = append(errs, h.traces.Close())
	if h.bus != nil {
		errs = append(errs, h.bus.Close())
	}
	if h.file != nil {
		errs = append(errs, h.file.Close())
	}
	return errors.Join(errs...)
}
