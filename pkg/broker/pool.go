package broker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// PoolCloud is the name under which machines that the user already has stand beside the clouds: the Cloud of an attempt's offer there,
// whose Region is the pool.
const PoolCloud = "pool"

// ErrPool is about settings of a pool, or a report of a machine, that cannot be.
var ErrPool = errors.New("pool")

// ErrPoolBusy says that something still runs on a machine that is to be removed.
var ErrPoolBusy = errors.New("pool: in use")

// Keeper keeps the pools: who they are, which machines they have, and what those run.
type Keeper struct {
	*Loader
	tokens func(wire.Claims) (string, error)
	known  poolsKnown
}

// newKeeper makes a keeper of the pools in a store. Whoever commits units tells it by noted.
func newKeeper(l *Loader, tokens func(wire.Claims) (string, error)) *Keeper {
	b := &Keeper{Loader: l, tokens: tokens}
	l.conflicted = b.known.conflicted
	return b
}

// noted takes over what a unit that was committed has written of pools.
func (b *Keeper) noted(u *unit) { b.known.committed(u) }

// Driver is the driver of pools: what schedule has assigned is a cluster as soon as it is asked for.
func (b *Keeper) Driver() cloud.Cloud { return poolCloud{b} }

// PoolSettings are what its owner sets of a pool.
type PoolSettings struct {
	// Place is where its machines are, "cloud:region" as the catalogue names them: for egress, and for where outputs are left. Empty
	// is nowhere in particular.
	Place string `json:"place,omitempty"`
	// USDPerHour is what an hour of a whole machine counts as; 0 is paid already.
	USDPerHour float64 `json:"usdPerHour,omitempty"`
	// Partitions is into how many records its machines are divided, so that as many sessions take machines at once without a conflict; 0 is
	// as many as it has, of a new one DefaultPartitions. It cannot change while the pool has machines.
	Partitions  int    `json:"partitions,omitempty"`
	Description string `json:"description,omitempty"`
}

// Sizes of a pool.
const (
	DefaultPartitions = 8
	maxPartitions     = 256
	maxPools          = 32
	// maxUses bounds what runs on one machine, maxPartition the machines of one partition. Nothing is added to a record beyond maxPartitionBytes, so that it stays
	// below what a store takes.
	maxUses           = 64
	maxPartition      = 400
	maxPartitionBytes = 300 << 10
)

// Pool is the record of a pool: machines that the user already has.
type Pool struct {
	Name string `json:"name"`
	PoolSettings
	// Draining pools get nothing new.
	Draining bool      `json:"draining,omitempty"`
	Created  time.Time `json:"created"`
}

// Partition is the record of a slice of a pool's machines, and of all that runs on them. Whoever takes or frees a machine writes it on the
// condition that it is as he has seen it.
type Partition struct {
	Pool     string        `json:"pool"`
	Index    int           `json:"index"`
	Machines []PoolMachine `json:"machines"` // by ID
	// Removed machines are not let in again by what they have joined with before.
	Removed []RemovedMachine `json:"removed,omitempty"`
}

// RemovedMachine is a machine that its owner has removed. It is remembered as long as what it had joined with may be good.
type RemovedMachine struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// Capacity is what a machine has, or what a task holds of one.
type Capacity struct {
	CPUs         float64 `json:"cpus" doc:"vCPUs"`
	MemoryGiB    float64 `json:"memoryGiB" doc:"Memory, GiB"`
	Accelerator  string  `json:"accelerator,omitempty" doc:"Name of the accelerators as the catalogue has it"`
	Accelerators float64 `json:"accelerators,omitempty" doc:"How many of them"`
}

// PoolMachine is a machine in its partition.
type PoolMachine struct {
	ID       string            `json:"id"`
	Type     string            `json:"type"` // what the author of a task may ask for as its instance type
	Labels   map[string]string `json:"labels,omitempty"`
	Capacity Capacity          `json:"capacity"`
	Joined   time.Time         `json:"joined"`
	// Draining machines get nothing new by their owner's wish, Leaving ones as their process is about to end. Of those, and of the first if Vacate says so, what
	// runs there saves its work and goes.
	Draining bool `json:"draining,omitempty"`
	Vacate   bool `json:"vacate,omitempty"`
	Leaving  bool `json:"leaving,omitempty"`
	// A machine that has failed to bring up a cluster gets nothing new for a time, that grows with each failure in a row.
	BlockedUntil time.Time `json:"blockedUntil,omitzero"`
	Failures     int       `json:"failures,omitempty"`
	Reason       string    `json:"reason,omitempty"` // of the last failure
	Uses         []PoolUse `json:"uses,omitempty"`
}

// PoolUse is what one rank of a cluster holds of a machine.
type PoolUse struct {
	Cluster string   `json:"cluster"`
	Rank    int      `json:"rank"`
	Hold    Capacity `json:"hold"`
	// Devices are the indexes of the accelerators it holds.
	Devices []int     `json:"devices,omitempty"`
	Since   time.Time `json:"since"`
}

// Beat is when a machine was last heard of: a record of its own, so that machines that report do not disturb those who take machines. It
// is written at most once in PoolTimes.Beat.
type Beat struct {
	At time.Time `json:"at"`
}

// PoolTimes are how the broker and the machines of pools wait for each other, by the broker's clock.
type PoolTimes struct {
	// Beat is how often it is noted that a machine was heard of.
	Beat time.Duration
	// StaleAfter without a word a machine gets nothing new; LostAfter, what runs there is lost.
	StaleAfter, LostAfter time.Duration
	// Busy and Idle are how soon a machine asks again, while it waits for a change and while nothing changes.
	Busy, Idle time.Duration
	// Known is how long a process goes on with what it knows of which pools there are; Turn is how often it looks at another partition.
	Known, Turn time.Duration
	// BlockFor is how long a machine gets nothing new after it has failed to bring up a cluster; it doubles with each failure in a row.
	BlockFor time.Duration
}

// DefaultPoolTimes suit machines that are reached by a public API.
func DefaultPoolTimes() PoolTimes {
	return PoolTimes{
		Beat: time.Minute, StaleAfter: 3 * time.Minute, LostAfter: 8 * time.Minute,
		Busy: 3 * time.Second, Idle: 15 * time.Second,
		Known: 5 * time.Second, Turn: time.Second,
		BlockFor: 10 * time.Minute,
	}
}

// partPools lists the pools.
const partPools = "pools"

func poolKey(name string) store.Key { return store.Key{Partition: partPools, Sort: name} }

func poolPart(pool string) string { return "pool#" + pool }

// slicePrefix starts the keys of a partition and of the beats of its machines, so that both are read together.
func slicePrefix(index int) string { return fmt.Sprintf("%03d#", index) }

const (
	partitionSuffix = "machines"
	beatInfix       = "seen#"
)

func partitionKey(pool string, index int) store.Key {
	return store.Key{Partition: poolPart(pool), Sort: slicePrefix(index) + partitionSuffix}
}

func beatKey(pool string, index int, machine string) store.Key {
	return store.Key{Partition: poolPart(pool), Sort: slicePrefix(index) + beatInfix + machine}
}

// partitionOf says in which partition of a pool a machine is.
func (p Pool) partitionOf(machine string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(machine))
	return int(h.Sum32() % uint32(p.Partitions)) //nolint:gosec // from 1 to maxPartitions
}

// SetPool creates a pool or changes its settings. It fails with ErrPool.
func (b *Keeper) SetPool(ctx context.Context, name string, s PoolSettings) error {
	if err := s.check(name); err != nil {
		return err
	}
	err := b.transact(ctx, fnPool, "pool/"+name+"/"+b.now().Format(time.RFC3339Nano), false, func(u *unit) error {
		pools, err := list[Pool](u, partPools, "", 0)
		if err != nil {
			return err
		}
		p, found, err := get[Pool](u, poolKey(name))
		if err != nil {
			return err
		}
		if !found && len(pools) >= maxPools {
			return fmt.Errorf("%w: there are %d pools, and can be no more", ErrPool, len(pools))
		}
		if s.Partitions == 0 {
			s.Partitions = DefaultPartitions
			if found {
				s.Partitions = p.Partitions
			}
		}
		if found && p.Partitions != s.Partitions {
			machines, err := b.poolMachines(u, p)
			if err != nil {
				return err
			}
			if len(machines) > 0 {
				return fmt.Errorf("%w: partitions: %s has %d machines in %d partitions; their number can change only while it has none", ErrPool, name, len(machines), p.Partitions)
			}
		}
		if !found {
			p = Pool{Name: name, Created: u.now}
		}
		p.PoolSettings = s
		var d Decision
		d.put(poolKey(name), p)
		return u.apply(d)
	})
	b.known.forget()
	return err
}

// check fails with ErrPool, naming the field.
func (s PoolSettings) check(name string) error {
	cloud, region, ok := strings.Cut(s.Place, ":")
	switch {
	case checkPoolName(name) != nil:
		return fmt.Errorf("%w: name: %w", ErrPool, checkPoolName(name))
	case s.Place != "" && (!ok || cloud == "" || region == ""):
		return fmt.Errorf("%w: place: %q is not cloud:region, such as aws:us-east-1", ErrPool, s.Place)
	case !(s.USDPerHour >= 0) || math.IsInf(s.USDPerHour, 0):
		return fmt.Errorf("%w: usdPerHour: %v is not a price", ErrPool, s.USDPerHour)
	case s.Partitions < 0 || s.Partitions > maxPartitions:
		return fmt.Errorf("%w: partitions: %d is not from 1 to %d", ErrPool, s.Partitions, maxPartitions)
	case len(s.Description) > maxDescription:
		return fmt.Errorf("%w: description: it is longer than %d bytes", ErrPool, maxDescription)
	}
	return nil
}

const (
	maxName        = 63
	maxDescription = 1024
)

// checkPoolName says what is wrong with the name of a pool, which becomes a part of keys and paths.
func checkPoolName(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if strings.ToLower(name) != name || strings.ContainsAny(name, "._") {
		return fmt.Errorf("%q may have small letters, digits, and after the first also -", name)
	}
	return nil
}

// checkName says what is wrong with the name of a machine, or a machine type.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%q has not from 1 to %d characters", clip(name), maxName)
	}
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("-_.", r)) {
			return fmt.Errorf("%q may have letters, digits, and after the first also - . and _", name)
		}
	}
	return nil
}

// RemovePool removes a pool. It fails with ErrNotFound, or with ErrPoolBusy while something runs there.
func (b *Keeper) RemovePool(ctx context.Context, name string) error {
	err := b.transact(ctx, fnPool, "pool/"+name+"/remove", false, func(u *unit) error {
		p, found, err := get[Pool](u, poolKey(name))
		if err != nil || !found {
			return notFound(err, "pool "+name)
		}
		machines, err := b.poolMachines(u, p)
		if err != nil {
			return err
		}
		if len(machines) > 0 {
			return fmt.Errorf("%w: %s has %d machines: remove them first", ErrPoolBusy, name, len(machines))
		}
		var d Decision
		d.del(poolKey(name))
		for i := range min(p.Partitions, unitFull) {
			if u.knows(partitionKey(name, i)) {
				d.del(partitionKey(name, i))
			}
		}
		return u.apply(d)
	})
	b.known.forget()
	return err
}

// notFound is err, or ErrNotFound of what where there is none.
func notFound(err error, what string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", what, ErrNotFound)
}

// poolMachines loads the machines of a pool.
func (b *Keeper) poolMachines(u *unit, p Pool) ([]PoolMachine, error) {
	parts, err := b.partitions(u, p)
	var out []PoolMachine
	for _, part := range parts {
		out = append(out, part.Machines...)
	}
	return out, err
}

// partitions loads those partitions of a pool that have been written, by index.
func (b *Keeper) partitions(u *unit, p Pool) ([]Partition, error) {
	var out []Partition
	keys := make([]store.Key, p.Partitions)
	for i := range keys {
		keys[i] = partitionKey(p.Name, i)
	}
	if err := u.preload(keys...); err != nil {
		return nil, err
	}
	for i := range keys {
		part, found, err := get[Partition](u, keys[i])
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, part)
		}
	}
	return out, nil
}

// fnPool is the source of what the owners and the machines of pools do.
const fnPool = "pool"
