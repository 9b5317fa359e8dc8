package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// refreshed returns the catalogue from the clouds' last answers, or c if there are none. A catalogue folder from the
// options is never replaced.
func (h *Host) refreshed(ctx context.Context, c *catalog.Catalog) *catalog.Catalog {
	if h.opt.Catalog != "" || len(h.bought.clouds)+len(h.opt.Play) == 0 {
		return c
	}
	data, tag, err := h.snapshot().Get(ctx, "")
	if err == nil {
		var newer *catalog.Catalog
		if newer, err = catalog.ReadSnapshot(data); err == nil {
			h.planned.Store(&tag)
			return newer
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("the refreshed catalogue cannot be read; using the one in this program", "err", err)
	}
	return c
}

// snapshot returns the refreshed catalogue in the state folder.
func (h *Host) snapshot() cloudkit.CatalogStore { return cloudkit.CatalogStoreOf(string(h.state)) }

// refresh requests the offers of the clouds in which the broker buys, unless they answered in the last day, and then
// plans with the answers. A catalogue folder is read again instead. If a cloud does not answer, its last known offers
// stay. It returns an error if no cloud answers.
func (h *Host) refresh(ctx context.Context) error {
	if h.opt.Catalog != "" {
		c, err := catalog.Open(h.opt.Catalog)
		if err != nil {
			return err
		}
		return h.planOn(c)
	}
	due, err := h.due()
	if err != nil || len(due) == 0 {
		return err
	}
	reports, err := h.snapshot().Renew(ctx, time.Now, due)
	for _, r := range reports {
		if !r.Renewed {
			h.log.Warn("a cloud's offers could not be refreshed", "cloud", r.Cloud, "err", r.Problem)
			continue
		}
		h.log.Info(
			"a cloud's offers were refreshed",
			"cloud",
			r.Cloud,
			"offers",
			r.Offers,
			"new",
			r.New,
			"gone",
			r.Gone,
			"dearer",
			r.Dearer,
			"cheaper",
			r.Cheaper,
			"kept",
			len(r.Kept),
		)
	}
	if err != nil {
		return err
	}
	return h.replan(ctx)
}

// replan makes the planner use the clouds' last answers.
func (h *Host) replan(ctx context.Context) error {
	c, err := catalog.Default()
	if err != nil {
		return err
	}
	return h.planOn(h.refreshed(ctx, c))
}

// due returns the clouds whose last answer is too old. The limit is a day, or less for clouds whose nodes change
// often.
func (h *Host) due() (due []renew.Source, err error) {
	answered, err := h.snapshot().LastAnswers()
	if err != nil {
		return nil, err
	}
	for _, source := range h.bought.refresh {
		if time.Since(answered[source.Cloud]) >= h.bought.fresh[source.Cloud] {
			due = append(due, source)
		}
	}
	return due, nil
}

// Times of refreshing.
const (
	// againAfter is the maximum time until the next request to a cloud that did not answer.
	againAfter = time.Hour
	// lookEvery is the interval at which the host checks whether another process (`tradewind catalog refresh`) has
	// refreshed the catalogue.
	lookEvery = 5 * time.Second
)

// refreshes emits a refresh event when a cloud's offers are too old, also at the start, and applies refreshes by other
// processes.
func (h *Host) refreshes(ctx context.Context) {
	var asked time.Time
	again := againAfter
	for _, fresh := range h.bought.fresh {
		again = min(again, fresh)
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if due, err := h.due(); err != nil {
			h.log.Warn("schedule", "err", err)
		} else if len(due) > 0 && time.Since(asked) >= again {
			asked = time.Now()
			id := "refresh-" + h.clock.Now().UTC().Format(time.RFC3339Nano)
			err := h.broker.Functions.Emit(ctx, "tradewind/schedule", id, events.CatalogRefresh{})
			if err != nil && ctx.Err() == nil {
				h.log.Warn("schedule", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := h.followSnapshot(ctx); err != nil {
			h.log.Warn("a refreshed catalogue could not be applied", "err", err)
		}
	}
}

// followSnapshot applies the snapshot if it is not the one in use.
func (h *Host) followSnapshot(ctx context.Context) error {
	if h.opt.Catalog != "" {
		return nil
	}
	tag := ""
	if was := h.planned.Load(); was != nil {
		tag = *was
	}
	_, now, err := h.snapshot().Get(ctx, tag)
	if errors.Is(err, fs.ErrNotExist) || err == nil && now == tag {
		return nil
	}
	if err != nil {
		return fmt.Errorf("catalogue: %w", err)
	}
	return h.replan(ctx)
}
