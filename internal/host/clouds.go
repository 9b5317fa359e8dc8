package host

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/dagbucket"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// openClouds opens the clouds on which machines are bought. If the options require it, it simulates the others of the
// catalogue.
func (h *Host) openClouds(ctx context.Context, st store.Store, names []string) (map[string]cloud.Cloud, error) {
	var err error
	if h.bought, err = h.openBought(ctx, st, config.Default().SeenFor); err != nil {
		return nil, err
	}
	clouds := maps.Clone(h.bought.clouds)
	if len(clouds) > 0 && !h.opt.PlayOthers {
		return clouds, nil
	}
	played, err := h.playClouds(names)
	for name, c := range played {
		if clouds[name] == nil {
			clouds[name] = c
		}
	}
	return clouds, err
}

// playClouds simulates clouds on this computer, with the behaviour of the scenario or the seed.
func (h *Host) playClouds(names []string) (map[string]cloud.Cloud, error) {
	behaviour, err := h.behaviour()
	if err != nil {
		return nil, err
	}
	h.machines, err = local.New(local.Config{
		Dir: h.state.path("machines"), Clock: h.clock, Behaviour: behaviour, Notify: h.emitNotice,
		MaxMachines: h.maxMachines() + extraMachines, Logger: h.log, Command: h.opt.Agent, Restart: h.opt.Anew,
		Extra: h.bootDelay,
	})
	if err != nil {
		return nil, fmt.Errorf("state folder %s: %w", h.state, err)
	}
	clouds := make(map[string]cloud.Cloud, len(names))
	for _, name := range names {
		clouds[name] = h.machines.Cloud(name)
	}
	return clouds, nil
}

// bootDelay makes the agents of a launch wait for a boot time that is drawn by the name of the cluster.
func (h *Host) bootDelay(spec cloud.LaunchSpec) []string {
	if h.opt.Boots == nil {
		return nil
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(spec.Cluster))
	p := rand.New(rand.NewPCG(name.Sum64(), h.opt.Seed)).Float64() //nolint:gosec // a simulation
	boot, ok := h.opt.Boots.Quantile(spec.Offer.Cloud, spec.Offer.InstanceType, p)
	if !ok {
		return nil
	}
	return []string{agent.EnvBoot + "=" + time.Duration(float64(boot)*h.opt.TimeScale).String()}
}

// With a seed, failures are frequent enough to be observed.
const (
	seededRefusals = 0.2
	seededLife     = 3 * time.Hour
	extraMachines  = 8 // more than the queue's quota, because the next machine starts while one is being released
)

// behaviour decides which launches fail and which machines are preempted.
func (h *Host) behaviour() (local.Behaviour, error) {
	switch {
	case h.opt.Scenario != "":
		f, err := os.Open(h.opt.Scenario)
		if err != nil {
			return nil, fmt.Errorf("scenario: %w", err)
		}
		defer f.Close() //nolint:errcheck // only read
		script, err := local.ReadScenario(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.opt.Scenario, err)
		}
		h.script = script
		return script, nil
	case h.opt.Seed != 0:
		return local.Seeded{
			Seed:            h.opt.Seed,
			CapacityFailure: func(apitypes.Offer) float64 { return seededRefusals },
			MeanLife:        func(apitypes.Offer) time.Duration { return seededLife },
		}, nil
	default:
		return local.None{}, nil
	}
}

// emitNotice emits the event for a notice of a cloud.
func (h *Host) emitNotice(ctx context.Context, n cloud.Notice) {
	if err := h.emitPushed(ctx, push.News{Notice: &n}); err != nil && ctx.Err() == nil {
		h.log.Warn("notice", "cluster", n.Cluster, "err", err)
	}
}

// emitPushed emits the event for a message that a cloud pushed. If it fails, the cloud sends the message again.
func (h *Host) emitPushed(ctx context.Context, n push.News) error {
	id, data := dagbucket.EventOf(n)
	return h.broker.Functions.Emit(ctx, "tradewind/local", id, data)
}
