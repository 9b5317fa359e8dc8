package record

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Assigned reports whether the machines of a cluster are those of a pool.
func (cl *Cluster) Assigned() bool { return cl.Offer.Cloud == apitypes.PoolCloud }

// ErrPool means that the settings of a pool, or a report of a machine, are invalid.
var ErrPool = errors.New("pool")

// ErrPoolBusy means that a task still runs on a machine that is to be removed.
var ErrPoolBusy = errors.New("pool: in use")

// PoolSettings are the settings of a pool by its owner.
type PoolSettings struct {
	// Place is the place of the pool's machines, "cloud:region" as in the catalogue. It determines the cost of data
	// transfer and the output store. Empty means an unknown place.
	Place string `json:"place,omitempty"`
	// USDPerHour is the price of an hour of a whole machine; 0 means that it is already paid.
	USDPerHour float64 `json:"usdPerHour,omitempty"`
	// Partitions is the number of records into which the pool's machines are divided. This number of sessions can
	// take machines at the same time without a conflict. 0 keeps the current number, or means DefaultPartitions for a
	// new pool. It cannot change while the pool has machines.
	Partitions  int    `json:"partitions,omitempty"`
	Description string `json:"description,omitempty"`
}

// Sizes of a pool.
const (
	DefaultPartitions = 8
	maxPartitions     = 256
	MaxPools          = 32
	// MaxUses limits the tasks on one machine, and MaxPartition the machines of one partition. Nothing is added to a
	// record beyond MaxPartitionBytes, so that the record stays below the size limit of stores.
	MaxUses           = 64
	MaxPartition      = 400
	MaxPartitionBytes = 300 << 10
)

// Pool is the record of a pool: machines that a user already has.
type Pool struct {
	Name string `json:"name"`
	PoolSettings
	// Draining pools get no new tasks.
	Draining bool      `json:"draining,omitempty"`
	Created  time.Time `json:"created"`
}

// Partition is the record of some of a pool's machines and of everything that runs on them. A decision that takes or
// frees a machine writes it, on the condition that it has not changed since the read.
type Partition struct {
	Pool     string        `json:"pool"`
	Index    int           `json:"index"`
	Machines []PoolMachine `json:"machines"` // by ID
	// Removed machines cannot join again with their old credentials.
	Removed []RemovedMachine `json:"removed,omitempty"`
}

// RemovedMachine is a machine that its owner has removed. It is remembered while its old credentials may be valid.
type RemovedMachine struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// Beat is the time of a machine's last call to the broker. It is a separate record, so that calls do not conflict with
// sessions that take machines. It is written at most once in each interval of config.PoolTimes.Beat, so a machine may
// have called later than At.
type Beat struct {
	At time.Time `json:"at"`
}

// PartPools is the store's partition with the records of all pools.
const PartPools = "pools"

// Seats is the record of the processes that read pools now. The number of a process is its position in the list.
type Seats struct {
	Taken []Seat `json:"taken"`
}

// Seat is a process, and the time until which it keeps its number without renewal. An empty Process means that the
// number is free.
type Seat struct {
	Process string    `json:"process,omitempty"`
	Until   time.Time `json:"until,omitzero"`
}

// SeatsKey is the key of the Seats.
func SeatsKey() store.Key { return store.Key{Partition: "schedulers", Sort: "seats"} }

// PoolKey is the key of a Pool. The pool of a job's workers is a record of the job, so it is not in any list of
// pools.
func PoolKey(name string) store.Key {
	if job, ok := JobOfPool(name); ok {
		return store.Key{Partition: JobPart(job), Sort: "workers"}
	}
	return store.Key{Partition: PartPools, Sort: name}
}

// PoolPart is the store's partition with the machines of a pool.
func PoolPart(pool string) string { return "pool#" + pool }

// SlicePrefix returns the prefix that the sort keys of a partition and of its machines' Beats share, so that one
// query reads them all.
func SlicePrefix(index int) string { return padded(index, 3) + "#" }

// PartitionSuffix ends the sort key of a partition. BeatInfix precedes the machine's name in the sort key of a Beat.
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

// PartitionOf returns the index of the partition to which a machine belongs.
func (p Pool) PartitionOf(machine string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(machine))
	return int(h.Sum32() % uint32(p.Partitions)) //nolint:gosec // from 1 to maxPartitions
}

// Check fails with ErrPool and names the invalid field.
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

// checkPoolName checks the name of a pool, which becomes a part of keys and paths.
func checkPoolName(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if strings.ToLower(name) != name || strings.ContainsAny(name, "._") {
		return fmt.Errorf("%q may only have lower-case letters, digits and, after the first character, -", name)
	}
	return nil
}

// CheckName checks the name of a machine or of a machine type.
func CheckName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%q must have 1 to %d characters", readable.ClipMessage(name), maxName)
	}
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("-_.", r)) {
			return fmt.Errorf("%q may only have letters, digits and, after the first character, - . and _", name)
		}
	}
	return nil
}

// PartitionsOf returns the indexes of the partitions to which machines belong, without duplicates.
func (p Pool) PartitionsOf(hosts []string) []int {
	var out []int
	for _, h := range hosts {
		out = append(out, p.PartitionOf(h))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// PoolSeen is a session's view of a pool: its partitions by index, as they were last read, and the order of these
// reads, the last one first.
type PoolSeen struct {
	Pool
	Parts []PartSeen
	Order []int
}

// PartSeen is a partition at its last read, and the time of each machine's last call.
type PartSeen struct {
	Partition
	Seen map[string]time.Time
}

// Machine returns the index of a machine of the partition. If found is false, it is the index at which the machine
// would be.
func (p *Partition) Machine(id string) (i int, found bool) {
	return slices.BinarySearchFunc(p.Machines, id, func(m PoolMachine, id string) int {
		return strings.Compare(m.ID, id)
	})
}

// suits reports whether a machine of a pool satisfies an alternative of a task. The market does not matter, because
// nothing is bought.
func (p *Pool) suits(m *PoolMachine, r *dag.Resources) bool {
	at, region, _ := strings.Cut(p.Place, ":")
	arch := m.Labels[LabelArch]
	switch {
	case r.Service != "" || r.Zone != "" || r.Image != "" || r.Family != "" || r.CPU != "":
		// machines of pools have no cloud service, zone or known processor, and their image cannot be chosen
		return false
	case r.Cloud != "" && r.Cloud != at && r.Cloud != apitypes.PoolCloud, r.Region != "" && r.Region != region:
		return false
	case r.InstanceType != "" && r.InstanceType != m.Type:
		return false
	case r.FixedArch() != "" && r.FixedArch() != arch:
		return false
	case r.Accelerator != "" && (!strings.EqualFold(r.Accelerator, m.Capacity.Accelerator) ||
		Accelerators(r) > m.Capacity.Accelerators):
		return false
	}
	return r.CPUs.Min <= m.Capacity.CPUs && r.Memory.Min <= m.Capacity.MemoryGiB
}

// Allowed reports whether a job may run at the pool's place.
func (p *Pool) Allowed(regions []string) bool {
	at, region, _ := strings.Cut(p.Place, ":")
	return len(regions) == 0 || p.Place != "" && dag.InPlaces(regions, at, region)
}

// Classes returns the classes of a pool's machines that suit an alternative, with one machine of each.
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
