package host

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// StoreOf returns the store of a host.
func StoreOf(h *Host) store.Store { return bolt.New(h.file) }

// ConfigOf returns the configuration of a host's broker.
func ConfigOf(h *Host) config.Config { return h.config() }

// PolicyOf returns the current scheduling policy.
func PolicyOf(h *Host) *scheduler.Policy { return h.policy.Policy(context.Background()) }

// NowOf returns the time of the broker's clock.
func NowOf(h *Host) time.Time { return h.clock.Now().UTC() }

// Settle packs the files in a folder that a job's file names.
func Settle(ctx context.Context, h *Host, dir string, spec *dag.Job) error {
	return h.packFiles(ctx, dir, spec)
}
