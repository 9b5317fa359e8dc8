package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/pack"
	spark "github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// servicesBought returns the services that plans may use.
func servicesBought(all map[string]spark.Service) map[string]bool {
	bought := map[string]bool{}
	for name := range all {
		bought[name] = true
	}
	return bought
}

// servicesEvery is the interval, in wall time, at which the attempts on services are checked.
const servicesEvery = 5 * time.Second

// watchServices watches the attempts on managed services, which have no agents.
func (h *Host) watchServices(ctx context.Context) {
	for ctx.Err() == nil {
		if err := h.broker.Services.Watch(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("services", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-h.placed:
		case <-time.After(servicesEvery):
		}
	}
}

// wakeServices makes watchServices look at once.
func (h *Host) wakeServices() {
	select {
	case h.placed <- struct{}{}:
	default: // it will look anyway
	}
}

// Ending a place takes several calls, because services end in stages.
const (
	endPlacesEvery = time.Second
	endPlacesTimes = 60
)

// endPlaces ends all places of this deployment. A cluster that is shutting down counts as ended: its cloud needs
// minutes for that, but needs nothing from this host.
func endPlaces(ctx context.Context, all map[string]spark.Service) error {
	for range endPlacesTimes {
		left, err := endOnce(ctx, all)
		if left == 0 || ctx.Err() != nil {
			return err
		}
		_ = clock.Pause(ctx, endPlacesEvery)
	}
	return errPlaces
}

var errPlaces = errors.New("places on services may still run; the next start on this folder ends them")

// endOnce takes the next step to end each place, and returns the number of places that have not ended.
func endOnce(ctx context.Context, all map[string]spark.Service) (left int, err error) {
	for name, s := range all {
		places, listed := s.Places(ctx)
		if listed != nil {
			return 1, fmt.Errorf("places of %s may still run: %w", name, listed)
		}
		for _, p := range places {
			if p.State == spark.Ended {
				continue
			}
			if p.State != spark.Ending || strings.HasSuffix(name, "-serverless") {
				left++
			}
			err = errors.Join(err, s.End(ctx, p))
		}
	}
	return left, err
}

// appendTo returns a function that appends to an attempt's log the part of the output that the log lacks.
func appendTo(logs api.Logs) func(ctx context.Context, job, attempt string, all []byte) error {
	return func(ctx context.Context, job, attempt string, all []byte) error {
		log := api.Log{Job: job, Attempt: attempt}
		has, err := logs.Size(ctx, log)
		if err != nil && !errors.Is(err, api.ErrNoLog) {
			return err
		}
		if has >= int64(len(all)) {
			return nil
		}
		return logs.Append(ctx, log, has, all[has:])
	}
}

// unpack writes the content of a pack below a prefix of a store.
func (h *Host) unpack(ctx context.Context, uri, prefix string) (at string, err error) {
	u, err := pack.ParseURI(uri)
	if err != nil {
		return "", err
	}
	list, err := pack.ReadList(ctx, h.packs, u.Digest)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "tradewind-unpack-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // read
	name := path.Base(cmp.Or(u.Name, "file"))
	if err := pack.Unpack(ctx, h.packs, list, root, name); err != nil {
		return "", err
	}
	for _, e := range list.Entries {
		if e.Dir || e.Link != "" {
			continue
		}
		key := path.Join(name, e.Path)
		to, err := grant.Below(prefix, key)
		if err != nil {
			return "", err
		}
		body, err := root.ReadFile(key)
		if err == nil {
			err = h.put(ctx, to, body)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", to, err)
		}
	}
	if list.Single() {
		return grant.Below(prefix, name)
	}
	return grant.Below(prefix, name+"/")
}

// putFor is the lifetime of the grant for a written file.
const putFor = 15 * time.Minute

// put writes an object.
func (h *Host) put(ctx context.Context, uri string, body []byte) error {
	granted, err := h.data.Sign(ctx, grant.Want{Op: grant.Put, URI: uri, For: putFor, Size: int64(len(body))})
	if err != nil {
		return err
	}
	req, err := granted[0].Request(ctx, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return grant.Redact(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the store answered %s", resp.Status)
	}
	return nil
}
