package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/atomicfile"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// snapshot is the refreshed catalogue: a file in the state folder.
type snapshot string

func (h *Host) snapshot() snapshot { return snapshot(h.state.path("catalog.snapshot")) }

// Get implements cloudkit.Snapshots; the tag is the content's digest.
func (s snapshot) Get(_ context.Context, unless string) (data []byte, tag string, err error) {
	data, err = os.ReadFile(string(s))
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(data)
	if tag = hex.EncodeToString(sum[:]); tag == unless {
		return nil, tag, nil
	}
	return data, tag, nil
}

// Put implements cloudkit.Snapshots.
func (s snapshot) Put(_ context.Context, data []byte) error {
	return atomicfile.Write(string(s), 0o600, data)
}

// age is how long ago it was written; ok is false where there is none.
func (s snapshot) age(now time.Time) (age time.Duration, ok bool) {
	info, err := os.Stat(string(s))
	if err != nil {
		return 0, false
	}
	return now.Sub(info.ModTime()), true
}

// refreshed is the catalogue as the clouds that are bought on last described themselves, else as it is. A folder of
// catalogues that the host was given stays what it is.
func (h *Host) refreshed(ctx context.Context, c *catalog.Catalog) *catalog.Catalog {
	if h.opt.Catalog != "" || len(h.bought.clouds) == 0 {
		return c
	}
	data, _, err := h.snapshot().Get(ctx, "")
	if err == nil {
		var newer *catalog.Catalog
		if newer, err = catalog.ReadSnapshot(data); err == nil {
			return newer
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("the refreshed catalogue cannot be read; the one in this program holds", "err", err)
	}
	return c
}

// refresh asks the clouds that are bought on what they sell, and plans on that from then on; a folder of catalogues is
// read anew. A cloud that does not answer keeps what was known of it. It fails when none answers.
func (h *Host) refresh(ctx context.Context) error {
	if h.opt.Catalog != "" {
		c, err := catalog.Open(h.opt.Catalog)
		if err != nil {
			return err
		}
		return h.planOn(c)
	}
	var errs []error
	answered := 0
	for _, name := range slices.Sorted(maps.Keys(h.bought.refresh)) {
		res, err := h.bought.refresh[name](ctx, h.snapshot())
		if err != nil {
			errs = append(errs, fmt.Errorf("cloud %s: %w", name, err))
			h.log.Warn("a cloud's offers stay as they were", "cloud", name, "err", err)
			continue
		}
		answered++
		h.log.Info("a cloud's offers are renewed", "cloud", name, "offers", res.Offers, "new", res.New, "gone",
			res.Gone)
	}
	if answered == 0 {
		return errors.Join(errs...)
	}
	c, err := catalog.Default()
	if err != nil {
		return err
	}
	return h.planOn(h.refreshed(ctx, c))
}

// refreshEvery is how old the refreshed catalogue may be.
const refreshEvery = 24 * time.Hour

// refreshes asks for a refresh when the last one is a day old, at the start too.
func (h *Host) refreshes(ctx context.Context) {
	for {
		wait := time.Duration(0)
		if age, ok := h.snapshot().age(time.Now()); ok {
			wait = min(max(refreshEvery-age, 0), refreshEvery)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		id := "refresh-" + h.clock.Now().UTC().Format(time.RFC3339Nano)
		if err := h.broker.Emit(ctx, "tradewind/schedule", id, events.CatalogRefresh{}); err != nil &&
			ctx.Err() == nil {
			h.log.Warn("schedule", "err", err)
		}
		timer.Reset(refreshEvery) // the event is tried again by itself
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
