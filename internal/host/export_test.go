package host

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/bolt"
)

// StoreOf is the store of a host.
func StoreOf(h *Host) store.Store { return bolt.New(h.file) }

// ConfigOf is the configuration of a host's broker.
func ConfigOf(h *Host) record.Config { return h.config() }

// PolicyOf is the policy that sessions follow now.
func PolicyOf(h *Host) *scheduler.Policy { return h.policy.Policy(context.Background()) }

// NowOf is the time by the broker's clock.
func NowOf(h *Host) time.Time { return h.clock.Now().UTC() }
