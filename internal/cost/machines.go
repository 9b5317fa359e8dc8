package cost

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// fakeEC2 is an EC2 with unlimited capacity.
type fakeEC2 struct {
	world *world
	live  map[string]cloud.LaunchSpec
}

func (s *fakeEC2) has(cluster string) bool {
	_, ok := s.live[cluster]
	return ok
}

// Name implements cloud.Cloud.
func (s *fakeEC2) Name() string { return "aws" }

// Launch implements cloud.Cloud. The driver reads the cluster's tombstone before and after.
func (s *fakeEC2) Launch(_ context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	w := s.world
	w.meter.wait(waitLaunch)
	w.meter.add(TableReads, 2)
	w.meter.wait(2 * waitRead)
	if _, again := s.live[spec.Cluster]; !again {
		s.live[spec.Cluster] = spec
		for rank := range spec.Nodes {
			w.after(bootTime, func() { w.boot(spec.Cluster, rank) })
		}
	}
	return s.machines(spec), nil
}

func (s *fakeEC2) machines(spec cloud.LaunchSpec) []cloud.Machine {
	out := make([]cloud.Machine, spec.Nodes)
	for i := range out {
		out[i] = cloud.Machine{ID: fmt.Sprintf("%s-%d", spec.Cluster, i), Cluster: spec.Cluster, Rank: i,
			State: cloud.Running, Offer: spec.Offer}
	}
	return out
}

// Terminate implements cloud.Cloud. The driver writes the cluster's tombstone first. EC2 sends an event for each
// terminated machine, and the function that receives it finds that the broker had requested it.
func (s *fakeEC2) Terminate(_ context.Context, cluster string) error {
	w := s.world
	w.meter.wait(waitTerminate + waitDescribe + waitWrite)
	w.meter.wrote("grave", chunks(itemBytes(store.Key{Partition: "grave#aws#" + cluster, Sort: "grave"}, 2, true),
		writeUnit))
	spec, ok := s.live[cluster]
	if !ok {
		return nil
	}
	delete(s.live, cluster)
	at := w.now.Add(time.Second)
	if w.ends[at] += spec.Nodes; w.ends[at] == spec.Nodes {
		w.after(time.Second, func() { w.ended(w.ends[at]) })
	}
	return nil
}

// ended sends EC2's events for terminated machines, one message for each machine. Messages of the same moment are in
// the same batches, and the machines of a batch are looked up together.
func (w *world) ended(machines int) {
	w.meter.add(QueueRequests, float64(machines))
	for n := machines; n > 0; n -= sizeOf(events.FnInterrupt).batch {
		w.meter.add(QueueRequests, 2)
		w.invoke(events.FnInterrupt, func() { w.meter.wait(waitDescribe) })
	}
}

// Machines implements cloud.Cloud.
func (s *fakeEC2) Machines(_ context.Context, cluster string) ([]cloud.Machine, error) {
	s.world.meter.wait(waitDescribe)
	var out []cloud.Machine
	for id, spec := range s.live {
		if cluster == "" || id == cluster {
			out = append(out, s.machines(spec)...)
		}
	}
	return out, nil
}

// call is one request of an agent.
func (w *world) call(do func(b *broker.Broker) error) (gone bool) {
	w.meter.add(APIRequests, 1)
	w.invoke(fnAPI, func() {
		err := do(w.brokers[fnAPI])
		gone = errors.Is(err, record.ErrGone)
		if !gone {
			w.fail(err)
		}
	})
	return gone
}

// node is a simulated agent.
type node struct {
	w      *world
	claims wire.Claims
	seen   int
	done   bool
	on     *worker // the worker on which the task runs; nil if it has its own machine
	// printed is the number of bytes of its log that the task has sent.
	printed int64
}

// boot starts the agent of a machine.
func (w *world) boot(cluster string, rank int) {
	n := &node{w: w, claims: wire.Claims{Job: record.ClusterJob(cluster), Cluster: cluster, Rank: rank}}
	w.meter.add(ObjectReads, 1)    // the agent's program
	w.meter.add(LambdaRequests, 2) // the authorizer checks the tokens of the boot and of the work
	w.meter.add(LambdaSeconds, 2*ownTime*authorizerMemory)
	n.hello()
}

// hello is the first call of an agent.
func (n *node) hello() {
	w := n.w
	var first wire.Work
	gone := w.call(func(b *broker.Broker) (err error) {
		first, err = b.Agents.Hello(w.ctx, n.claims, wire.Hello{Address: "10.0.0.1"})
		return err
	})
	if !gone {
		n.handleWork(first, byEvents, firstPolls)
	}
}

// The interval between two polls of an agent, as set by the API in internal/lambdahost.
const (
	firstPolls = 2 * time.Second
	laterPolls = 5 * time.Minute // also the heartbeat
)

// runs reports whether the agent's machine still runs.
func (n *node) runs() bool {
	if n.on != nil {
		n = n.on.node
	}
	return n.w.machines.has(n.claims.Cluster)
}

// ask polls for a command, and again until the end.
func (n *node) ask(c class, again time.Duration) {
	w := n.w
	if !n.runs() {
		return // terminated
	}
	var work wire.Work
	gone := false
	w.withClass(c, func() {
		gone = w.call(func(b *broker.Broker) (err error) {
			work, err = b.Agents.Work(w.ctx, n.claims, n.seen)
			return err
		})
	})
	if !gone {
		n.handleWork(work, c, again)
	}
}

// handleWork executes the command of an answer, and polls again at the time that the answer sets.
func (n *node) handleWork(work wire.Work, c class, again time.Duration) {
	w := n.w
	switch {
	case n.done:
	case work.Command == wire.Run:
		n.seen = work.Seq
		if a := work.Assignment; a != nil && a.Worker != nil {
			n.beginWorker(*a.Worker)
		} else {
			n.begin(work.Assignment)
		}
		w.after(laterPolls, func() { n.ask(byTime, laterPolls) })
	case work.Command == wire.None:
		w.after(again, func() { n.ask(c, again) })
	}
}

// begin runs the task.
func (n *node) begin(a *wire.Assignment) {
	w := n.w
	took := w.duration(n.claims.Cluster)
	if n.on != nil {
		took = spread(took, n.claims.Cluster)
	}
	var ends []wire.ChunkEnd
	whole := took
	if a != nil {
		for _, m := range a.Chunk {
			ran := spread(w.duration(m.Attempt), m.Attempt)
			ends = append(ends, wire.ChunkEnd{Attempt: m.Attempt, Ran: ran})
			whole += ran
		}
	}
	switch {
	case a == nil || took >= a.Pace.Quiet:
		w.after(min(whole, firstPiece), func() { n.report(wire.Started, whole > firstPiece) })
	case whole >= a.Pace.Quiet:
		w.after(a.Pace.Quiet, func() { n.report(wire.Started, true) })
	}
	w.after(whole, func() {
		n.done = true
		n.succeed(took, ends)
		if n.on != nil {
			n.on.exited()
		}
	})
}

// succeed reports the success of a task, and of the other members of its chunk, with the ends of their logs.
func (n *node) succeed(ran time.Duration, ends []wire.ChunkEnd) {
	n.send(wire.Report{Event: wire.Succeeded, Ran: ran, Chunk: ends}, true, func() error {
		for _, e := range ends {
			log := api.Log{Job: n.claims.Job, Attempt: e.Attempt, Rank: n.claims.Rank}
			if err := n.w.logs.Append(n.w.ctx, log, 0, printed(e.Attempt, 0, pieceBytes)); err != nil {
				return err
			}
		}
		if len(ends) == 0 {
			return nil
		}
		members := make([]string, len(ends))
		for i := range ends {
			members[i] = ends[i].Attempt
		}
		return n.w.brokers[fnAPI].Agents.Runs(n.w.ctx, n.claims, members...)
	})
}

// report sends an event, and optionally a piece of the log.
func (n *node) report(e wire.Event, log bool) {
	n.send(wire.Report{Event: e}, log, func() error { return nil })
}

// send sends a report. also is the work of the API before the broker handles the report.
func (n *node) send(r wire.Report, log bool, also func() error) {
	r.ID, r.Attempt = fmt.Sprint(r.Event, n.claims.Rank, n.w.now.UnixNano()), n.claims.Cluster
	n.w.withClass(byEvents, func() {
		n.w.call(func(b *broker.Broker) error {
			if log {
				if err := n.print(); err != nil {
					return err
				}
			}
			if err := also(); err != nil {
				return err
			}
			return b.Agents.Report(n.w.ctx, n.claims, r)
		})
	})
}

// print stores the next piece of log, like the API.
func (n *node) print() error {
	text := printed(n.claims.Cluster, n.printed, pieceBytes)
	at := n.printed
	n.printed += int64(len(text))
	return n.w.logs.Append(n.w.ctx, api.Log{Job: n.claims.Job, Attempt: n.claims.Cluster, Rank: n.claims.Rank}, at,
		text)
}

// printed returns the output of a task: lines like those of a training program, all different.
func printed(who string, from int64, size int) []byte {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, who, from)
	seed := h.Sum64()
	var out []byte
	for i := uint64(0); len(out) < size; i++ {
		x := rand.New(rand.NewPCG(seed, i)) //nolint:gosec // must be the same each time
		out = fmt.Appendf(out, "2026-11-21 %02d:%02d:%02d,%03d INFO train: epoch %d step %d/20000 loss %.4f grad "+
			"%.3f lr %.2e %d samples/s, %.1f GiB used\n",
			x.IntN(24), x.IntN(60), x.IntN(60), x.IntN(1000), x.IntN(9), x.IntN(20000), 4*x.Float64(), 2*x.Float64(),
			1e-3*x.Float64(), x.IntN(9999), 40*x.Float64())
	}
	return out[:size]
}

// spread varies the duration of a task by up to a tenth. Otherwise tasks that begin together would end together, and
// their worker would report them with one call.
func spread(took time.Duration, cluster string) time.Duration {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, cluster)
	return time.Duration(float64(took) * (0.9 + float64(h.Sum64()%1000)/5000))
}

// duration returns the planned duration of a cluster's task.
func (w *world) duration(cluster string) time.Duration {
	if w.hours == nil {
		w.meter.off = true
		detail, err := w.brokers[fnAPI].Views.JobDetail(w.ctx, w.job)
		w.meter.off = false
		if err != nil {
			w.fail(err)
			return 0
		}
		for i := range detail.TaskList {
			w.hours = append(w.hours, detail.TaskList[i].Hours)
		}
	}
	var index, attempt int
	if _, err := fmt.Sscanf(cluster[len(record.ClusterJob(cluster)):], ".%d.%d", &index, &attempt); err != nil ||
		index >= len(w.hours) {
		w.fail(fmt.Errorf("cost: cluster %s: %w", cluster, err))
		return 0
	}
	return time.Duration(w.hours[index] * float64(time.Hour))
}
