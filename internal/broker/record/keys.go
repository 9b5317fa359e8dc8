package record

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Key names a record in the store.
type Key = store.Key

// MaxItems is the maximum number of items in a transaction.
const MaxItems = store.MaxItems

// Partitions that do not belong to a job.
const (
	PartJobs      = "jobs"   // JobIndex, the newest first
	PartActive    = "active" // JobIndex of unfinished jobs, by ID
	PartBlocks    = "blocks"
	PartMarket    = "market"
	PartPrices    = "prices" // PastPrices
	PartQueues    = "queues"
	PartQueueGate = "gate"     // Gate
	PartHeld      = "reserved" // Occupancy
	PartPast      = "past"     // JobIndex of jobs that have expired or were removed, the newest first
	PartExpiry    = "expiry"   // Expiry, by the time at which it is due
)

// JobPart is the partition of a job's records.
func JobPart(job string) string { return "job#" + job }

// JobKey is the key of a Job.
func JobKey(job string) store.Key { return store.Key{Partition: JobPart(job), Sort: "job"} }

// ProgressKey is the key of a Progress.
func ProgressKey(job string) store.Key {
	return store.Key{Partition: JobPart(job), Sort: "progress"}
}

// LedgerKey is the key of a Ledger.
func LedgerKey(job string) store.Key { return store.Key{Partition: JobPart(job), Sort: "ledger"} }

// TaskKey is the key of a Task.
func TaskKey(job string, task int) store.Key {
	return store.Key{Partition: JobPart(job), Sort: "task#" + padded(task, 6)}
}

// AttemptKey is the key of an Attempt.
func AttemptKey(job string, task, attempt int) store.Key {
	return store.Key{Partition: JobPart(job), Sort: "attempt#" + padded(task, 6) + "#" + padded(attempt, 4)}
}

// ClusterPrefix is the prefix of the sort keys of clusters.
const ClusterPrefix = "cluster#"

// ClusterKey is the key of a Cluster.
func ClusterKey(id string) store.Key {
	return store.Key{Partition: JobPart(ClusterJob(id)), Sort: ClusterPrefix + id}
}

// QueueKey is the key of a Queue.
func QueueKey(name string) store.Key { return store.Key{Partition: PartQueues, Sort: name} }

// WaitPart is the partition of the tasks that wait in a queue.
func WaitPart(queue string) string { return "queue#" + queue }

// WaitKey returns the key of a waiting task. It orders a queue's tasks by priority, highest first, then by age, then
// by name.
func WaitKey(queue string, w apitypes.Waiting) store.Key {
	inverted := uint32(math.MaxInt32 - int64(max(min(w.Priority, math.MaxInt32), math.MinInt32)))
	return store.Key{
		Partition: WaitPart(queue),
		Sort:      fmt.Sprintf("wait#%08x#%016x#%s#%06d", inverted, uint64(max(w.Since.UnixNano(), 0)), w.Job, w.Task), //nolint:gosec // not negative
	}
}

// IndexKey returns the key of a job's line in the list of all jobs. It orders jobs by age, the newest first. The
// minus sign puts it before the lines of version 1, which start with a digit.
func IndexKey(j Job) store.Key {
	return store.Key{Partition: PartJobs,
		Sort: fmt.Sprintf("-%016x#%s", math.MaxInt64-max(j.Submitted.UnixNano(), 0), j.ID)}
}

// ActiveKey is the key of the JobIndex of an unfinished job.
func ActiveKey(job string) store.Key { return store.Key{Partition: PartActive, Sort: job} }

// PastKey is the key of the line of a job that has expired or was removed. Its sort key is that of IndexKey.
func PastKey(j Job) store.Key { return store.Key{Partition: PartPast, Sort: IndexKey(j).Sort} }

// ExpiryKey is the key of an Expiry that is due at a time.
func ExpiryKey(job string, due time.Time) store.Key {
	return store.Key{Partition: PartExpiry, Sort: ExpiryBound(due) + "#" + job}
}

// ExpiryBound returns a sort key greater than those of every Expiry that is due before a time.
func ExpiryBound(due time.Time) string { return fmt.Sprintf("%016x", uint64(max(due.UnixNano(), 0))) } //nolint:gosec // not negative

// BlockKey is the key of a Block; each location has one.
func BlockKey(b apitypes.Block) store.Key {
	parts := []string{b.Cloud, b.Region, b.Zone, b.InstanceType, b.Family, b.Market}
	if b.Reservation != "" || b.Service != "" {
		parts = append(parts, b.Reservation)
	}
	if b.Service != "" {
		parts = append(parts, b.Service)
	}
	return store.Key{Partition: PartBlocks, Sort: strings.Join(parts, "/")}
}

// HeldKey is the key of an Occupancy.
func HeldKey(id string) store.Key { return store.Key{Partition: PartHeld, Sort: id} }

// MarketKey is the key of a MarketRecord.
func MarketKey(offer string) store.Key { return store.Key{Partition: PartMarket, Sort: offer} }

// PastPricesKey is the key of a PastPrices.
func PastPricesKey(offer string) store.Key { return store.Key{Partition: PartPrices, Sort: offer} }

// SeenKey is the key of the marker that a function has handled an event.
func SeenKey(fn, event string) store.Key {
	return store.Key{Partition: "seen#" + fn + "#" + event, Sort: "seen"}
}

// ClusterID returns the name of an attempt's cluster. It is also the idempotency token of the launch.
func ClusterID(job string, task, attempt int) string {
	return job + "." + strconv.Itoa(task) + "." + strconv.Itoa(attempt)
}

// ClusterJob returns the job of a cluster by the cluster's ID.
func ClusterJob(id string) string {
	job, _, _ := strings.Cut(id, ".")
	return job
}

// ClusterAttempt returns the task and the attempt of a cluster by the cluster's ID.
func ClusterAttempt(id string) (task, attempt int, ok bool) {
	_, rest, _ := strings.Cut(id, ".")
	first, second, _ := strings.Cut(rest, ".")
	task, err := strconv.Atoi(first)
	attempt, err2 := strconv.Atoi(second)
	return task, attempt, err == nil && err2 == nil && task >= 0 && attempt > 0
}

// Family returns the machine family of an instance type, in which clouds state quotas: p3 of p3.2xlarge, n1 of
// n1-standard-8, NC of Standard_NC6s_v3.
func Family(instanceType string) string {
	if rest, ok := strings.CutPrefix(instanceType, "Standard_"); ok {
		return rest[:len(rest)-len(strings.TrimLeft(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))]
	}
	head, _, _ := strings.Cut(instanceType, ".")
	head, _, _ = strings.Cut(head, "-")
	head, _, _ = strings.Cut(head, "_")
	return head
}

// Place returns the optimizer's name of a location.
func Place(o apitypes.Offer) string { return o.Cloud + ":" + o.Region }

// ShortHash returns 13 characters (64 bits) of a digest of parts. This is enough to distinguish the events and jobs
// of one deployment.
func ShortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return digits.EncodeToString(sum[:8])
}

// digits is a base32 encoding whose alphabet is allowed in names.
var digits = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Slug returns the readable part of a job's ID: the job's name, reduced to the characters that every cloud allows in
// tags.
func Slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 32 {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "job"
}

// Hours converts a duration to hours, the unit of prices.
func Hours(d time.Duration) float64 { return d.Hours() }

// Duration converts hours to a duration, at most the maximum duration.
func Duration(h float64) time.Duration {
	if h >= math.MaxInt64/float64(time.Hour) {
		return math.MaxInt64
	}
	return time.Duration(h * float64(time.Hour))
}

// ClusterOf returns the ID of the cluster whose record has the key.
func ClusterOf(k store.Key) (string, bool) { return strings.CutPrefix(k.Sort, ClusterPrefix) }

// PlanHeadPrefix is the prefix of the sort keys of PlanHeads.
const PlanHeadPrefix = "planned#"

// PlanHeadKey is the key of a PlanHead.
func PlanHeadKey(job string, version int) store.Key {
	return store.Key{Partition: JobPart(job), Sort: fmt.Sprintf("%s%06d", PlanHeadPrefix, version)}
}

// padded formats a non-negative number with at least width digits. It does the same as %0*d in a fifth of the time.
func padded(n, width int) string {
	s := strconv.Itoa(n)
	return zeros[:max(0, min(width, len(zeros))-len(s))] + s
}

const zeros = "000000"
