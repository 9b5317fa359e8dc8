package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/internal/broker/internal/recordtest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// set changes fields of a record, or of the spec or plan of a job.
func (s *stage) set(d *datadriven.TestData) {
	kind, name, task := d.CmdArgs[0].Key, d.CmdArgs[1].Key, 0
	if len(d.CmdArgs) > 2 && kind != "machine" {
		task = int(number(s.t, d.CmdArgs[2].Key))
	}
	switch id := record.ClusterID(name, task, 1); kind {
	case "bids":
		job := s.records[record.JobKey(name)].(record.Job) //nolint:forcetypeassert // the story made it
		job.Bids = record.Blob{Version: 1, Name: "bids", Token: name + fmt.Sprint(len(s.records), s.now)}
		s.records[record.JobKey(name)] = job
		bids := &record.Bids{}
		s.merge(d, bids)
		s.kept.Blobs.Put(job.Bids.In(name), bids, 1)
	case "market":
		change[record.MarketRecord](s, d, record.MarketKey(name))
	case "pool":
		s.merge(d, &s.pools[s.poolOf(name)].PoolSettings)
	case "machine":
		s.merge(d, s.machine(name, d.CmdArgs[2].Key))
		s.writePool(name)
	case "job":
		change[record.Job](s, d, record.JobKey(name))
	case "ledger":
		change[record.Ledger](s, d, record.LedgerKey(name))
	case "progress":
		change[record.Progress](s, d, record.ProgressKey(name))
	case "stands":
		change[record.Locations](s, d, record.StandsKey(name))
	case "label-stands": // of NAME=VALUE
		label, value, _ := strings.Cut(name, ":")
		change[record.Locations](s, d, record.LabelStandsKey(label, value))
	case "queue":
		change[apitypes.Queue](s, d, record.QueueKey(name))
	case "task":
		change[record.Task](s, d, record.TaskKey(name, task))
	case "waiting": // which changes its place in the queue
		job, _ := s.records[record.JobKey(name)].(record.Job)
		of, _ := s.records[record.TaskKey(name, task)].(record.Task)
		w := record.WaitingOf(job, of)
		delete(s.records, record.WaitKey(job.Queue, w))
		s.merge(d, &w)
		s.records[record.WaitKey(job.Queue, w)] = w
	case "cluster":
		change[record.Cluster](s, d, record.ClusterKey(id))
	case "attempt":
		change[apitypes.Attempt](s, d, record.AttemptKey(name, task, 1))
	case "spec", "spec-task", "plan":
		job := s.records[record.JobKey(name)].(record.Job) //nolint:forcetypeassert // the story made it
		v := s.kept.Blobs.Get(job.Spec.In(name))
		if kind == "plan" {
			v = s.kept.Blobs.Get(job.Plan.In(name))
		}
		if spec, ok := v.(*dag.Job); ok && kind == "spec-task" {
			v = &spec.Tasks[task]
		}
		s.merge(d, v)
	default:
		d.Fatalf(s.t, "unknown kind %s", kind)
	}
}

func change[T any](s *stage, d *datadriven.TestData, key record.Key) {
	v, _ := s.records[key].(T)
	s.merge(d, &v)
	s.records[key] = v
}

func (s *stage) merge(d *datadriven.TestData, v any) {
	if err := json.Unmarshal([]byte(d.Input), v); err != nil {
		d.Fatalf(s.t, "%v", err)
	}
}

// tellChanges prints the changes of a record in one line.
func (s *stage) tellChanges(slot *recordcache.Slot, out *strings.Builder) {
	before, after := fieldsOf(s.records[slot.Key]), map[string]any{}
	if slot.Body == nil {
		fmt.Fprintf(out, "  %s/%s is removed\n", slot.Key.Partition, slot.Key.Sort)
		return
	}
	if err := json.Unmarshal(slot.Body, &after); err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintf(out, "  %s/%s: %s\n", slot.Key.Partition, slot.Key.Sort, recordtest.Changed(before, after))
}

func fieldsOf(v any) map[string]any {
	out := map[string]any{}
	text, _ := json.Marshal(v)
	_ = json.Unmarshal(text, &out) // a nil value has no fields
	return out
}

// pool adds a pool, or a machine to one.
func (s *stage) pool(cmd, name, place string, args []datadriven.CmdArg, arg func(string) float64) {
	if cmd == "pool" {
		p := record.PoolSeen{}
		p.Name, p.Partitions, p.USDPerHour, p.Place = name, max(int(arg("partitions")), 1), arg("usd"), place
		for i := range p.Partitions {
			part := record.PartSeen{Seen: map[string]time.Time{}}
			part.Pool, part.Index = name, i
			p.Order, p.Parts = append(p.Order, i), append(p.Parts, part)
		}
		s.pools = append(s.pools, p)
		s.writePool(name)
		return
	}
	ids := []string{args[1].Key}
	if n := int(arg("count")); n > 0 {
		ids = nil
		for i := range n {
			ids = append(ids, fmt.Sprint(args[1].Key, i))
		}
	}
	p := &s.pools[s.poolOf(name)]
	for _, id := range ids {
		part := &p.Parts[p.PartitionOf(id)]
		m := record.PoolMachine{ID: id, Type: "machine",
			Capacity: apitypes.Capacity{CPUs: arg("cpus"), MemoryGiB: arg("mem")}}
		if used := arg("used"); used > 0 {
			m.Uses = []record.PoolUse{{Cluster: "other.0.1", Hold: apitypes.Capacity{CPUs: used}}}
		}
		part.Machines, part.Seen[id] = append(part.Machines, m), s.now.Add(24*time.Hour)
		slices.SortFunc(part.Machines, func(a, b record.PoolMachine) int { return strings.Compare(a.ID, b.ID) })
	}
	s.writePool(name)
}

func (s *stage) poolOf(name string) int {
	return slices.IndexFunc(s.pools, func(p record.PoolSeen) bool { return p.Name == name })
}

// machine finds a machine of a pool.
func (s *stage) machine(pool, id string) *record.PoolMachine {
	p := &s.pools[s.poolOf(pool)]
	part := &p.Parts[p.PartitionOf(id)]
	i, found := part.Machine(id)
	if !found {
		s.t.Fatalf("pool %s has no machine %s", pool, id)
	}
	return &part.Machines[i]
}

// writePool sets the records of a pool to its current view.
func (s *stage) writePool(name string) {
	for _, part := range s.pools[s.poolOf(name)].Parts {
		s.records[record.PartitionKey(name, part.Index)] = part.Partition
	}
}

// runOn makes a running task hold cores of a machine, and 2 GiB of memory for each.
func (s *stage) runOn(on, id string, index int, since time.Duration, cpus float64) {
	pool, host, _ := strings.Cut(on, "/")
	m, cluster := s.machine(pool, host), record.ClusterID(id, index, 1)
	m.Uses = append(m.Uses, record.PoolUse{Cluster: cluster, Hold: apitypes.Capacity{CPUs: cpus, MemoryGiB: 2 * cpus},
		Since: s.now.Add(-since)})
	s.writePool(pool)
	task := s.records[record.TaskKey(id, index)].(record.Task) //nolint:forcetypeassert // the story made it
	task.Plan = 1
	s.records[record.TaskKey(id, index)] = task
}

// price lets the first task of a job wait for a better price on a spot market.
func (s *stage) price(id string, usd float64, spot bool) {
	in, _ := dearNow(spot)
	begins, tables, err := in.Waits(context.Background())
	if err != nil || len(begins) != 1 {
		s.t.Fatal(begins, err)
	}
	job := s.records[record.JobKey(id)].(record.Job) //nolint:forcetypeassert // the story made it
	job.Waits, job.Bids = true, record.Blob{Version: 1, Name: "bids", Token: fmt.Sprint(id, spot)}
	s.records[record.JobKey(id)] = job
	s.kept.Blobs.Put(job.Bids.In(id), &record.Bids{Begin: begins, Begins: tables}, 1)
	s.records[record.MarketKey(begins[0].Market)] = record.MarketRecord{Offer: begins[0].Market, USD: usd}
}

// roads is the cost of moving data in stories.
type roads struct{}

func (roads) Move(from, to string) (usdPerGiB, hoursPerGiB float64, ok bool) {
	if from == to {
		return 0, 0, true
	}
	return 0.1, 0.01, true
}

func (roads) PlaceOf(uri string) string { return strings.TrimPrefix(uri, "s3://") }
