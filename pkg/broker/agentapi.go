package broker

import (
	"context"
	"errors"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// ErrGone says that the attempt an agent speaks for is over: it stops its task and exits.
var ErrGone = errors.New("broker: the attempt is over")

// fnAgent is the source of what agents tell.
const fnAgent = "agent"

// Hello registers a node of a cluster, and returns what it is to do where that is known, as Work does for one that has seen nothing: the last node's
// hello brings the cluster up. The claims come from a verified token.
func (b *Broker) Hello(ctx context.Context, c wire.Claims, h wire.Hello) (w wire.Work, err error) {
	err = b.transact(ctx, fnAgent, "hello/"+c.Cluster, false, func(u *unit) error {
		cl, err := b.ownCluster(u, c)
		if err != nil {
			return err
		}
		st := arriving{cl: cl, rank: c.Rank}
		if st.up() {
			if err := b.loadArriving(u, &st); err != nil {
				return err
			}
		}
		if err := u.apply(decideHello(&st, h, u.now)); err != nil {
			return err
		}
		if w = (wire.Work{Command: wire.None}); st.cl.Seq > 0 {
			w, err = b.work(u, st.cl, c.Rank, 0)
		}
		return err
	})
	if err == nil {
		w.Token, err = b.renewed(c)
	}
	return w, err
}

// renewed is a new token for who speaks for an attempt that lives, where less than half of what one is good for is left
// of the old one. Who verified that one has refused it if it has expired, and only a rank of its own cluster is named.
func (b *Broker) renewed(c wire.Claims) (token string, err error) {
	if now := b.now(); !c.Expires.IsZero() && c.Expires.Sub(now) < b.cfg.TokenFor/2 {
		c.Issued, c.Expires = time.Time{}, now.Add(b.cfg.TokenFor).Truncate(time.Second)
		return b.Tokens(c)
	}
	return "", nil
}

// ownCluster loads the cluster that claims speak for, while its attempt lasts.
func (b *Broker) ownCluster(u *unit, c wire.Claims) (Cluster, error) {
	cl, found, err := get[Cluster](u, clusterKey(c.Cluster))
	if err != nil {
		return cl, err
	}
	if !found || cl.Job != c.Job || c.Rank < 0 || c.Rank >= len(cl.Nodes) || cl.released() {
		return cl, ErrGone
	}
	return cl, nil
}

// arriving is what a hello is decided on. The job and the task are loaded where it is the last.
type arriving struct {
	job  Job
	task Task
	cl   Cluster
	rank int
}

// up says that the cluster is up once this node is there.
func (st *arriving) up() bool {
	for i, n := range st.cl.Nodes {
		if i != st.rank && n.Address == "" {
			return false
		}
	}
	return st.cl.State == ClusterBooting
}

// loadArriving loads what the start of a cluster is decided on, which its work is made of as well.
func (b *Broker) loadArriving(u *unit, st *arriving) (err error) {
	if err := u.preload(jobKey(st.cl.Job), taskKey(st.cl.Job, st.cl.Task)); err != nil {
		return err
	}
	if st.job, _, err = get[Job](u, jobKey(st.cl.Job)); err != nil {
		return err
	}
	st.task, _, err = get[Task](u, taskKey(st.cl.Job, st.cl.Task))
	return err
}

// decideHello notes a node's address; the last one to come brings the cluster up.
func decideHello(st *arriving, h wire.Hello, now time.Time) (d Decision) {
	up := st.up()
	st.cl.Nodes = append([]Node(nil), st.cl.Nodes...)
	st.cl.Nodes[st.rank].Address, st.cl.Nodes[st.rank].Seen = h.Address, now
	if up {
		d.bringUp(st.job, st.task, &st.cl, now)
	}
	d.put(clusterKey(st.cl.ID), st.cl)
	return d
}

// Work returns the newest command for a node, with Seq as last seen and no command when there is none newer. It does not wait;
// hosts do, by Ports.Changed.
func (b *Broker) Work(ctx context.Context, c wire.Claims, seen int) (wire.Work, error) {
	u := b.newUnit(ctx, fnAgent)
	cl, err := b.ownCluster(u, c)
	if err != nil {
		return wire.Work{}, err
	}
	w := wire.Work{Seq: seen, Command: wire.None}
	if cl.Seq <= seen {
		err = b.polled(u, c, cl)
	} else {
		w, err = b.work(u, cl, c.Rank, seen)
	}
	if err == nil {
		w.Token, err = b.renewed(c)
	}
	return w, err
}

// work is the newest command for a node, which it has not seen.
func (b *Broker) work(u *unit, cl Cluster, rank, seen int) (wire.Work, error) {
	w := wire.Work{Seq: cl.Seq, Command: wire.Command(cl.Command)}
	if w.Command == wire.SaveNow {
		w.Notice = b.cfg.wall(max(cl.Until.Sub(u.now), 0))
		return w, nil
	}
	if w.Command != wire.Run {
		return w, nil
	}
	if cl.Outcome != "" || begunAnew(cl, rank, seen) {
		return wire.Work{}, ErrGone // lost before this node had begun, or since
	}
	job, _, err := get[Job](u, jobKey(cl.Job))
	if err != nil {
		return w, err
	}
	task, _, err := get[Task](u, taskKey(cl.Job, cl.Task))
	if err != nil {
		return w, err
	}
	spec, err := u.spec(job)
	if err != nil {
		return w, err
	}
	var attempt Attempt
	if t := &spec.Tasks[cl.Task]; t.Checkpoint != nil || t.StandIn() { // which may go on from something
		if attempt, _, err = get[Attempt](u, attemptKey(cl.Job, cl.Task, cl.Attempt)); err != nil {
			return w, err
		}
	}
	parents, err := parentOutputs(u, job, spec, cl.Task)
	if err != nil {
		return w, err
	}
	w.Assignment = assignment(b.cfg, job, spec, cl, task, attempt, parents)
	return w, nil
}

// polled takes a poll for a sign of life, where no others are sent: one that comes soon after another says nothing new.
func (b *Broker) polled(u *unit, c wire.Claims, cl Cluster) error {
	if !b.cfg.Pace.Polls || cl.Command == "" || u.now.Sub(cl.Nodes[c.Rank].Seen) < b.cfg.Pace.Alive/2 {
		return nil
	}
	cl.Nodes[c.Rank].Seen = u.now
	var d Decision
	d.put(clusterKey(cl.ID), cl)
	if err := u.apply(d); err != nil {
		return err
	}
	err := u.finish()
	if errors.Is(err, store.ErrConflict) { // whoever came between has not heard of this node
		return b.alive(u.ctx, c, wire.Report{ID: "poll"})
	}
	if err == nil {
		b.committed(u)
	}
	return err
}

// Report takes in what a node tells. Telling it twice changes nothing.
func (b *Broker) Report(ctx context.Context, c wire.Claims, r wire.Report) error {
	if r.Event == wire.Alive {
		return b.alive(ctx, c, r)
	}
	// A node that has started or succeeded has, however often it says so.
	marked := r.Event != wire.Started && r.Event != wire.Succeeded
	return b.transact(ctx, fnAgent, c.Cluster+"/"+r.ID, marked, func(u *unit) error {
		cl, err := b.ownCluster(u, c)
		if err != nil {
			return err
		}
		if r.Attempt != "" && r.Attempt != cl.ID {
			return ErrGone
		}
		st := reporting{cl: cl, rank: c.Rank, now: u.now}
		st.cl.Nodes = append([]Node(nil), cl.Nodes...)
		if err := b.loadReporting(u, &st, r.Event); err != nil {
			return err
		}
		if r.Event == wire.Checkpointed && st.task.Attempt != cl.Attempt {
			return ErrGone // to accept it would have the agent remove what its successor resumes from
		}
		d := st.decide(r, b.cfg)
		if r.Event == wire.NoticeSeen {
			return b.noticed(u, cl, d)
		}
		return u.apply(d)
	})
}

// loadReporting loads what a report is decided on beside the cluster, at once. Of the two that each task makes, the start looks at the task
// alone, and neither at the attempt.
func (b *Broker) loadReporting(u *unit, st *reporting, e wire.Event) (err error) {
	cl := &st.cl
	task, job, attempt := taskKey(cl.Job, cl.Task), jobKey(cl.Job), attemptKey(cl.Job, cl.Task, cl.Attempt)
	keys := []store.Key{attempt, task, job}
	switch e {
	case wire.Started:
		keys = keys[1:2]
	case wire.Succeeded:
		keys = keys[1:]
	default:
	}
	if err := u.preload(keys...); err != nil {
		return err
	}
	if st.task, _, err = get[Task](u, task); err != nil || e == wire.Started {
		cl.tellTask(&st.task)
		return err
	}
	cl.tellTask(&st.task)
	if st.job, _, err = get[Job](u, job); err != nil {
		return err
	}
	spec, err := u.spec(st.job)
	if err != nil {
		return err
	}
	if st.spec = &spec.Tasks[cl.Task]; e == wire.Succeeded {
		return nil
	}
	st.attempt, _, err = get[Attempt](u, attempt)
	cl.tell(&st.attempt)
	return err
}

// alive notes that a node was heard of: by far the most frequent report, so it costs one read and one write, and leaves no
// marker.
func (b *Broker) alive(ctx context.Context, c wire.Claims, r wire.Report) error {
	return b.transact(ctx, fnAgent, c.Cluster+"/"+r.ID, false, func(u *unit) error {
		cl, err := b.ownCluster(u, c)
		if err != nil {
			return err
		}
		if r.Attempt != "" && r.Attempt != cl.ID {
			return ErrGone
		}
		cl.Nodes[c.Rank].Seen = u.now
		var d Decision
		d.put(clusterKey(cl.ID), cl)
		return u.apply(d)
	})
}

// reporting is what one report is decided on; loadReporting says what of it is loaded.
type reporting struct {
	job     Job
	spec    *dag.Task
	task    Task
	attempt Attempt
	cl      Cluster
	rank    int
	now     time.Time
}

// node is the node that reports.
func (st *reporting) node() *Node { return &st.cl.Nodes[st.rank] }

func (st *reporting) decide(r wire.Report, cfg Config) Decision {
	st.node().Seen = st.now
	over := st.cl.Outcome != "" // lost, and only waiting to be freed
	switch r.Event {
	case wire.Started:
		return st.started()
	case wire.Checkpointed:
		return st.checkpointed(r)
	case wire.Succeeded:
		if over {
			break
		}
		return st.succeeded()
	case wire.Failed:
		if over {
			break
		}
		return st.failed(r)
	case wire.Stopped:
		return st.stopped()
	case wire.NoticeSeen:
		l := losing{job: st.job, task: st.task, attempt: st.attempt, cl: st.cl}
		return decideDoomed(l, st.now.Add(unscale(r.Notice, cfg.Scale)), st.now)
	case wire.Alive:
	}
	var d Decision
	d.put(clusterKey(st.cl.ID), st.cl)
	return d
}

// unscale turns a duration of the machines' clock into one of the broker's.
func unscale(d time.Duration, scale float64) time.Duration {
	if scale <= 0 {
		return d
	}
	return time.Duration(float64(d) / scale)
}

// save adds the records that a report of the attempt's course changed.
func (st *reporting) save(d *Decision) {
	d.put(clusterKey(st.cl.ID), st.cl)
	d.put(taskKey(st.cl.Job, st.cl.Task), st.task)
}

// end adds the records that a report of the attempt's end changed.
func (st *reporting) end(d *Decision) {
	st.save(d)
	d.put(attemptKey(st.cl.Job, st.cl.Task, st.cl.Attempt), st.attempt)
}

func (st *reporting) every(is func(Node) bool) bool {
	for _, n := range st.cl.Nodes {
		if !is(n) {
			return false
		}
	}
	return true
}

// started notes that a node runs the task; the last node to start makes the task running.
func (st *reporting) started() (d Decision) {
	st.node().Started = true
	if st.cl.Outcome != "" || st.cl.Started || st.task.Attempt != st.cl.Attempt || !st.every(func(n Node) bool { return n.Started || n.Done }) {
		d.put(clusterKey(st.cl.ID), st.cl)
		return d
	}
	st.cl.Started, st.cl.Running = true, st.now
	st.cl.tellTask(&st.task)
	if d.put(clusterKey(st.cl.ID), st.cl); st.task.Gang != "" {
		d.put(taskKey(st.cl.Job, st.cl.Task), st.task)
	}
	d.emit(events.TaskStarted{Job: st.cl.Job, Task: st.cl.Task, Attempt: st.cl.Attempt})
	return d
}

// checkpointed notes a complete checkpoint, unless a newer one is known. With several nodes the first one's counts: the
// agents of the others save under the same number.
func (st *reporting) checkpointed(r wire.Report) (d Decision) {
	if st.rank != 0 || r.Seq <= st.task.Checkpoint.Seq || st.task.Attempt != st.cl.Attempt {
		d.put(clusterKey(st.cl.ID), st.cl)
		return d
	}
	st.task.Checkpoint = Saved{Seq: r.Seq, Prefix: r.Prefix, At: st.now}
	if st.spec.StandIn() {
		st.task.Progress = max(st.task.Progress, min(r.Progress, 1))
	} else {
		st.task.Progress = progressOf(st.spec, st.task, st.attempt, st.now)
	}
	st.save(&d)
	d.emit(events.TaskCheckpointed{
		Job: st.cl.Job, Task: st.cl.Task, Attempt: st.cl.Attempt, Seq: r.Seq, Progress: st.task.Progress,
	})
	return d
}

// succeeded notes that a node is done; the last one ends the task.
func (st *reporting) succeeded() (d Decision) {
	st.node().Started, st.node().Done = true, true
	if !st.every(func(n Node) bool { return n.Done }) {
		d.put(clusterKey(st.cl.ID), st.cl)
		return d
	}
	if st.task.StartedAt.IsZero() || st.cl.Running.IsZero() {
		st.cl.Running, st.task.StartedAt = st.now, st.now
	}
	st.cl.Outcome, st.cl.Ended = OutcomeSucceeded, st.now // the attempt's record is written when it is known what it cost
	st.task.State, st.task.EndedAt, st.task.Progress = TaskSucceeded, st.now, 1
	st.task.Output = wire.OutputPrefix(taskPrefix(st.cl.Job, st.spec.Name), st.cl.ID)
	st.save(&d)
	d.unplanned(st.job, st.cl)
	d.emit(events.TaskSucceeded{Job: st.cl.Job, Task: st.cl.Task, Attempt: st.cl.Attempt, Cluster: st.cl.ID})
	return d
}

// failed ends the attempt: one node that fails fails them all.
func (st *reporting) failed(r wire.Report) (d Decision) {
	message := r.Message
	if r.Phase != "" && r.Phase != "run" {
		message = r.Phase + ": " + message
	}
	st.cl.Outcome = OutcomeFailed
	st.attempt.Outcome, st.attempt.Reason, st.attempt.Ended = OutcomeFailed, message, st.now
	st.task.State, st.task.Reason, st.task.EndedAt = TaskFailed, message, st.now
	st.end(&d)
	d.unplanned(st.job, st.cl)
	d.emit(events.TaskFailed{
		Job: st.cl.Job, Task: st.cl.Task, Attempt: st.cl.Attempt, Cluster: st.cl.ID,
		ExitCode: r.ExitCode, Message: message,
	})
	d.broken(st.task)
	return d
}

// stopped notes that a node has saved and stopped; when all have, a doomed cluster is lost at once, without
// waiting for the machine to be taken.
func (st *reporting) stopped() (d Decision) {
	st.node().Stopped = true
	if st.cl.State == ClusterDoomed && st.cl.Outcome == "" && st.cl.stopped() {
		return decideLost(losing{job: st.job, task: st.task, attempt: st.attempt, cl: st.cl}, st.cl.taken(), st.cl.Reason, st.now)
	}
	d.put(clusterKey(st.cl.ID), st.cl)
	return d
}
