package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver/renew"
)

// refreshed is the catalogue as the clouds that are bought on last described themselves, else as it is. A folder of
// catalogues that the host was given stays what it is.
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
		h.log.Warn("the refreshed catalogue cannot be read; the one in this program holds", "err", err)
	}
	return c
}

// snapshot is the refreshed catalogue in the state folder.
func (h *Host) snapshot() cloudkit.Shelf { return cloudkit.ShelfOf(string(h.state)) }

// refresh asks the clouds that are bought on, and have not answered in the last day, what they sell, and plans on that
// from then on; a folder of catalogues is read anew. A cloud that does not answer keeps what was known of it. It fails
// when none answers that was asked.
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
			h.log.Warn("a cloud's offers stay as they were", "cloud", r.Cloud, "err", r.Problem)
			continue
		}
		h.log.Info("a cloud's offers are renewed", "cloud", r.Cloud, "offers", r.Offers, "new", r.New, "gone", r.Gone,
			"dearer", r.Dearer, "cheaper", r.Cheaper, "kept", len(r.Kept))
	}
	if err != nil {
		return err
	}
	return h.replan(ctx)
}

// replan plans on what the clouds said last.
func (h *Host) replan(ctx context.Context) error {
	c, err := catalog.Default()
	if err != nil {
		return err
	}
	return h.planOn(h.refreshed(ctx, c))
}

// due are the clouds whose last answer is no longer good: that of a day ago, or sooner where nodes come and go.
func (h *Host) due() (due []renew.Source, err error) {
	answered, err := h.snapshot().Answered()
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
	// againAfter is when a cloud that did not answer is asked again, at the latest.
	againAfter = time.Hour
	// lookEvery is how often it is looked whether somebody else has renewed the catalogue: `tradewind catalog refresh`.
	lookEvery = 5 * time.Second
)

// refreshes asks for a refresh when a cloud's offers are a day old, at the start too, and plans on what others have
// renewed.
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
			h.log.Warn("what was renewed of the catalogue is not planned on", "err", err)
		}
	}
}

// followSnapshot plans on a snapshot that is not the one that was planned on last.
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
