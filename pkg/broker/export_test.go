package broker

import (
	"github.com/tradewind-broker/tradewind/pkg/broker/pool"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
)

// Ports are those of the broker, for tests that make another one like it.
func (b *Broker) Ports() Ports { return b.Functions.ports }

// Config is the broker's configuration.
func (b *Broker) Config() record.Config { return b.Functions.cfg }

// Transactor makes the broker's transactions.
func (b *Broker) Transactor() *unit.Transactor { return b.Functions.txns }

// Keeper keeps the broker's pools.
func (b *Broker) Keeper() *pool.Keeper { return b.Functions.pools }
