package broker

import (
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/pool"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
)

// Ports returns the broker's ports, for tests that make another broker like it.
func (b *Broker) Ports() Ports { return b.Functions.ports }

// Config returns the broker's configuration.
func (b *Broker) Config() config.Config { return b.Functions.cfg }

// Transactor returns the broker's Transactor.
func (b *Broker) Transactor() *txn.Transactor { return b.Functions.txns }

// Keeper returns the keeper of the broker's pools.
func (b *Broker) Keeper() *pool.Keeper { return b.Functions.pools }
