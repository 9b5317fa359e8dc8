package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	spark "github.com/tradewind-broker/tradewind/pkg/cloud/service"
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
		if _, err := h.broker.Services.Watch(ctx); err != nil && ctx.Err() == nil {
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
