package record

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Assigned says the same of a cluster.
func (cl *Cluster) Assigned() bool { return cl.Offer.Cloud == apitypes.PoolCloud }

// ErrPool is about settings of a pool, or a report of a machine, that cannot be.
var ErrPool = errors.New("pool")

// ErrPoolBusy says that something still runs on a machine that is to be removed.
var ErrPoolBusy = errors.New("pool: in use")

// PoolSettings are what its owner sets of a pool.
type PoolSettings struct {
	// Place is where its machines are, "cloud:region" as the catalogue names them: for egress, and for where outputs
	// are left. Empty is nowhere in particular.
	Place string `json:"place,omitempty"`
	// USDPerHour is what an hour of a whole machine counts as; 0 is paid already.
	USDPerHour float64 `json:"usdPerHour,omitempty"`
	// Partitions is into how many records its machines are divided, so that as many sessions take machines at once
	// without a conflict; 0 is as many as it has, of a new one DefaultPartitions. It cannot change while the pool has
	// machines.
	Partitions  int    `json:"partitions,omitempty"`
	Description string `json:"description,omitempty"`
}

// Sizes of a pool.
const (
	DefaultPartitions = 8
	maxPartitions     = 256
	MaxPools          = 32
	// MaxUses bounds what runs on one machine, maxPartition the machines of one partition. Nothing is added to a record
	// beyond maxPartitionBytes, so that it stays below what a store takes.
	MaxUses           = 64
	MaxPartition      = 400
	MaxPartitionBytes = 300 << 10
)

// Pool is the record of a pool: machines that the user already has.
type Pool struct {
	Name string `json:"name"`
	PoolSettings
	// Draining pools get nothing new.
	Draining bool      `json:"draining,omitempty"`
	Created  time.Time `json:"created"`
}

// Partition is the record of a slice of a pool's machines, and of all that runs on them. Whoever takes or frees a
// machine writes it on the condition that it is as he has seen it.
type Partition struct {
	Pool     string        `json:"pool"`
	Index    int           `json:"index"`
	Machines []PoolMachine `json:"machines"` // by ID
	// Removed machines are not let in again by what they have joined with before.
	Removed []RemovedMachine `json:"removed,omitempty"`
}

// RemovedMachine is a machine that its owner has removed. It is remembered as long as what it had joined with may be
// good.
type RemovedMachine struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// Beat is when a machine was last heard of: a record of its own, so that machines that report do not disturb those who
// take machines. It is written at most once in PoolTimes.Beat.
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
	// Known is how long a process goes on with what it knows of which pools there are; Turn is how often it looks at
	// another partition.
	Known, Turn time.Duration
	// BlockFor is how long a machine gets nothing new after it has failed to bring up a cluster; it doubles with each
	// failure in a row.
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

// PartPools lists the pools.
const PartPools = "pools"

// Seats is the record of the processes that look at pools now: the position of each is its number among them.
type Seats struct {
	Taken []Seat `json:"taken"`
}

// Seat is a process, until when it has its number without another word; empty of a number that nobody has.
type Seat struct {
	Process string    `json:"process,omitempty"`
	Until   time.Time `json:"until,omitzero"`
}

// SeatsKey is the key of the Seats.
func SeatsKey() store.Key { return store.Key{Partition: "schedulers", Sort: "seats"} }

// PoolKey is the key of a Pool.
func PoolKey(name string) store.Key { return store.Key{Partition: PartPools, Sort: name} }

// PoolPart is the partition of a pool's machines.
func PoolPart(pool string) string { return "pool#" + pool }

// SlicePrefix starts the keys of a partition and of the beats of its machines, so that both are read together.
func SlicePrefix(index int) string { return padded(index, 3) + "#" }

// What the sort keys of a pool's partition end in, or have before a machine's name.
const (
	PartitionSuffix = "machines"
	BeatInfix       = "seen#"
)

// PartitionKey is the key of a Partition.
func PartitionKey(pool string, index int) store.Key {
	return store.Key{Partition: PoolPart(pool), Sort: SlicePrefix(index) + PartitionSuffix}
}

// BeatKey is the key of a machine's Beat.
func BeatKey(pool string, index int, machine string) store.Key {
	return store.Key{Partition: PoolPart(pool), Sort: SlicePrefix(index) + BeatInfix + machine}
}

// PartitionOf says in which partition of a pool a machine is.
func (p Pool) PartitionOf(machine string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(machine))
	return int(h.Sum32() % uint32(p.Partitions)) //nolint:gosec // from 1 to maxPartitions
}

// Check fails with ErrPool, naming the field.
func (s PoolSettings) Check(name string) error {
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
	if err := CheckName(name); err != nil {
		return err
	}
	if strings.ToLower(name) != name || strings.ContainsAny(name, "._") {
		return fmt.Errorf("%q may have small letters, digits, and after the first also -", name)
	}
	return nil
}

// CheckName says what is wrong with the name of a machine, or a machine type.
func CheckName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%q has not from 1 to %d characters", Clip(name), maxName)
	}
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("-_.", r)) {
			return fmt.Errorf("%q may have letters, digits, and after the first also - . and _", name)
		}
	}
	return nil
}

// PartitionsOf are the partitions in which machines are, each once.
func (p Pool) PartitionsOf(hosts []string) []int {
	var out []int
	for _, h := range hosts {
		out = append(out, p.PartitionOf(h))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// PoolSeen is what a session is told of a pool: its partitions as they were seen, by index, and in which order they
// were looked at, the last one first.
type PoolSeen struct {
	Pool
	Parts []PartSeen
	Order []int
}

// PartSeen is a partition as it was seen, and when its machines were last heard of.
type PartSeen struct {
	Partition
	Seen map[string]time.Time
}

// Machine finds a machine of the partition, or where it would be.
func (p *Partition) Machine(id string) (i int, found bool) {
	return slices.BinarySearchFunc(p.Machines, id, func(m PoolMachine, id string) int {
		return strings.Compare(m.ID, id)
	})
}

// suits says whether a machine of a pool is one that an alternative of a task allows. What a pool has is not bought on
// any market, so either market's tasks may go there.
func (p *Pool) suits(m *PoolMachine, r *dag.Resources) bool {
	at, region, _ := strings.Cut(p.Place, ":")
	arch := m.Labels[LabelArch]
	switch {
	case r.Service != "" || r.Zone != "" || r.Image != "":
		return false // it is none of the cloud's, and has what it has
	case r.Cloud != "" && r.Cloud != at && r.Cloud != apitypes.PoolCloud, r.Region != "" && r.Region != region:
		return false
	case r.InstanceType != "" && r.InstanceType != m.Type:
		return false
	case r.Arch != "" && r.Arch != arch:
		return false
	case r.Accelerator != "" && (!strings.EqualFold(r.Accelerator, m.Capacity.Accelerator) ||
		Accelerators(r) > m.Capacity.Accelerators):
		return false
	}
	return r.CPUs.Min <= m.Capacity.CPUs && r.Memory.Min <= m.Capacity.MemoryGiB
}

// Allowed says whether a job may run where a pool is.
func (p *Pool) Allowed(regions []string) bool {
	at, region, _ := strings.Cut(p.Place, ":")
	return len(regions) == 0 || p.Place != "" && dag.InPlaces(regions, at, region)
}

// Classes are the kinds of machines of a pool that suit an alternative, with one of each.
func (p *PoolSeen) Classes(r *dag.Resources) map[MachineClass]*PoolMachine {
	out := map[MachineClass]*PoolMachine{}
	for i := range p.Parts {
		for j := range p.Parts[i].Machines {
			m := &p.Parts[i].Machines[j]
			if _, known := out[m.Class()]; !known && p.suits(m, r) {
				out[m.Class()] = m
			}
		}
	}
	return out
}
