package broker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/pool"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// fnAgent is the name of the source in changes that agents cause.
const fnAgent = "agent"

// Hello registers a node of a cluster. The hello of the last node brings the cluster up. If the node's work is known,
// Hello returns it, like Work for a node that has seen no command. The claims come from a verified token, and their
// machine from a verified proof. Hello fails with ErrGone, with ErrMachine if the caller is not the launched machine,
// and with ErrEarly if the launched machine is not recorded yet.
func (b *Agents) Hello(ctx context.Context, c wire.Claims, h wire.Hello) (w wire.Work, err error) {
	if c.Ranks > 0 { // all machines of the cluster boot with this token
		if h.Rank < 0 || h.Rank >= c.Ranks {
			return w, fmt.Errorf("%w: the machine reports that it is rank %d of %d", record.ErrMachine, h.Rank, c.Ranks)
		}
		c.Rank, c.Ranks = h.Rank, 0
	}
	var doubt error
	err = b.txns.Transact(ctx, fnAgent, "hello/"+c.Cluster, false, func(u *txn.Unit) error {
		cl, err := ownCluster(u, c)
		if err != nil {
			return err
		}
		st := attempt.Arriving{Cluster: cl, Rank: c.Rank}
		if doubt = st.Doubt(b.cfg, c.Machine); doubt != nil {
			return b.recordDoubt(u, cl, c.Rank, doubt)
		}
		if c.Boot && st.AlreadyArrived(h) {
			return record.ErrGone // a boot token is valid for one hello
		}
		if st.Up() {
			if err := b.loadArriving(u, &st); err != nil {
				return err
			}
		}
		if err := u.Apply(attempt.DecideHello(&st, h, u.Now)); err != nil {
			return err
		}
		if w = (wire.Work{Command: wire.None}); st.Cluster.Seq > 0 {
			w, err = b.work(u, st.Cluster, c.Rank, 0)
		}
		return err
	})
	if err == nil {
		err = doubt
	}
	if err == nil {
		w.Token, err = b.renewedToken(c)
	}
	return w, err
}

// recordDoubt records in the attempt why a machine's hello was refused. It records only the first refusal.
func (b *Agents) recordDoubt(u *txn.Unit, cl record.Cluster, rank int, doubt error) error {
	if errors.Is(doubt, record.ErrEarly) {
		return record.ErrSkip
	}
	made, found, err := recordcache.Get[apitypes.Attempt](u, record.AttemptKey(cl.Job, cl.Task, cl.Attempt))
	if err != nil || !found || made.Doubt != "" {
		return record.OrSkip(err)
	}
	b.log.Warn("a machine's hello is refused", "cluster", cl.ID, "rank", rank, "reason", doubt)
	return u.Apply(attempt.DecideDoubt(made, rank, doubt, u.Now))
}

// renewedToken returns a new token if the caller's token has less than half of its lifetime left, or is the token
// that its machine booted with. Otherwise it returns "". The claims are verified: the token has not expired, and the
// rank belongs to its cluster.
func (b *Agents) renewedToken(c wire.Claims) (token string, err error) {
	now, boot := b.txns.Now(), c.Boot
	old := !c.Expires.IsZero() && c.Expires.Sub(now) < b.cfg.TokenFor/2
	if !old && !boot {
		return "", nil
	}
	if c.Boot, c.Issued = false, (time.Time{}); old {
		c.Expires = now.Add(b.cfg.TokenFor).Truncate(time.Second)
	}
	return b.ports.Tokens(c)
}

// ownCluster loads the cluster that the claims name. It fails with ErrGone if the attempt has ended.
func ownCluster(u *txn.Unit, c wire.Claims) (record.Cluster, error) {
	cl, found, err := recordcache.Get[record.Cluster](u, record.ClusterKey(c.Cluster))
	if err != nil {
		return cl, err
	}
	if !found || cl.Job != c.Job || c.Rank < 0 || c.Rank >= len(cl.Nodes) || cl.Released() {
		return cl, record.ErrGone
	}
	return cl, nil
}

// ownMember loads the cluster that the claims name, in the form for the member of its chunk that the claims name. It
// fails with ErrGone if the chunk has no such member.
func ownMember(u *txn.Unit, c wire.Claims) (record.Cluster, error) {
	cl, err := ownCluster(u, c)
	if err != nil || c.Member == "" {
		return cl, err
	}
	member, ok := attempt.MemberCluster(cl, c.Member)
	if !ok {
		return cl, record.ErrGone
	}
	return member, nil
}

// Runs fails with ErrGone unless each of the attempts is a member of the chunk of the caller's cluster.
func (b *Agents) Runs(ctx context.Context, c wire.Claims, attempts ...string) error {
	u := b.txns.NewUnit(ctx, fnAgent)
	for _, c.Member = range attempts {
		if _, err := ownMember(u, c); err != nil {
			return err
		}
	}
	return nil
}

// loadArriving loads the records that the start of a cluster needs. Its work needs them as well.
func (b *Agents) loadArriving(u *txn.Unit, st *attempt.Arriving) (err error) {
	if err := u.Preload(record.JobKey(st.Cluster.Job), record.TaskKey(st.Cluster.Job, st.Cluster.Task)); err != nil {
		return err
	}
	if st.Job, _, err = recordcache.Get[record.Job](u, record.JobKey(st.Cluster.Job)); err != nil {
		return err
	}
	st.Task, _, err = recordcache.Get[record.Task](u, record.TaskKey(st.Cluster.Job, st.Cluster.Task))
	return err
}

// Work returns the newest command for a node. If no command is newer than seen, it returns none, and seen as Seq. It
// does not wait: the host waits for Ports.Changed.
func (b *Agents) Work(ctx context.Context, c wire.Claims, seen int) (wire.Work, error) {
	u := b.txns.NewUnit(ctx, fnAgent)
	cl, err := ownCluster(u, c)
	if err != nil {
		return wire.Work{}, err
	}
	w := wire.Work{Seq: seen, Command: wire.None}
	if cl.Seq > seen {
		w, err = b.work(u, cl, c.Rank, seen)
	}
	if err == nil {
		err = b.recordCall(u, c, cl)
	}
	if w.Visits = cl.Visits; err == nil {
		w.Token, err = b.renewedToken(c)
	}
	return w, err
}

// work returns the newest command for a node that has not seen this command.
func (b *Agents) work(u *txn.Unit, cl record.Cluster, rank, seen int) (wire.Work, error) {
	w := wire.Work{Seq: cl.Seq, Command: wire.Command(cl.Command)}
	if w.Command == wire.SaveAndStop {
		w.Notice, w.Now = b.cfg.Wall(max(cl.Until.Sub(u.Now), 0)), cl.Leaving != ""
		return w, nil
	}
	if w.Command != wire.Run {
		return w, nil
	}
	if cl.Outcome != "" || pool.Restarted(cl, rank, seen) {
		return wire.Work{}, record.ErrGone // the cluster was lost, before this node started or afterwards
	}
	job, _, err := recordcache.Get[record.Job](u, record.JobKey(cl.Job))
	if err != nil {
		return w, err
	}
	task, _, err := recordcache.Get[record.Task](u, record.TaskKey(cl.Job, cl.Task))
	if err != nil {
		return w, err
	}
	spec, err := attempt.SpecOf(u, job, cl)
	if err != nil {
		return w, err
	}
	var made apitypes.Attempt
	if spec.Tasks[cl.Task].Resumes() || attempt.Limited(b.cfg, cl) || record.IsWorker(spec, cl.Task) {
		if made, _, err = recordcache.Get[apitypes.Attempt](
			u,
			record.AttemptKey(cl.Job, cl.Task, cl.Attempt),
		); err != nil {
			return w, err
		}
	}
	inherited, err := attempt.ParentOutputs(u, b.cfg, job, spec, cl)
	if err != nil {
		return w, err
	}
	w.Assignment = attempt.Assignment(b.cfg, job, spec, cl, task, made, inherited)
	if len(cl.Nodes) > 1 && w.Assignment.StandIn == 0 {
		w.Assignment.Exchange, err = b.exchangeKey(cl)
	}
	if err == nil {
		w.Assignment.Gang, err = attempt.Gang(u, job, spec, cl)
	}
	if err == nil && w.Assignment.Gang != nil {
		w.Assignment.Gang.Key, err = b.gangKey(cl, w.Assignment.Gang.Name)
	}
	if err != nil {
		return w, err
	}
	return w, b.openSecrets(u, job, cl, &spec.Tasks[cl.Task], w.Assignment)
}

// exchangeKey returns the secret that the nodes of a cluster share. It is derived from the deployment's key, so it
// need not be stored: it is the hash of a token that is never used, with a rank that does not exist and an expiry in
// the past.
func (b *Agents) exchangeKey(cl record.Cluster) ([]byte, error) {
	token, err := b.ports.Tokens(wire.Claims{
		Job: cl.Job, Cluster: cl.ID, Rank: len(cl.Nodes), Expires: time.Unix(1, 0),
	})
	sum := sha256.Sum256([]byte("exchange " + token))
	return sum[:], err
}

// missingRank is a rank that does not exist. If this number changed, the keys of running gangs would change.
const missingRank = 10_000

// gangKey returns the secret that the nodes of a gang share, or the nodes of one task with a framework. It is derived
// like exchangeKey. All attempts have the same key, because no process uses it any more when an attempt has ended.
func (b *Agents) gangKey(cl record.Cluster, gang string) ([]byte, error) {
	if gang == "" {
		return b.exchangeKey(cl)
	}
	token, err := b.ports.Tokens(wire.Claims{Job: cl.Job, Cluster: cl.Job + record.GangMark + gang, Rank: missingRank,
		Expires: time.Unix(1, 0)})
	sum := sha256.Sum256([]byte("gang " + token))
	return sum[:], err
}

// recordCall counts a call that is not a report as a sign of life, if agents send no reports or reports are overdue.
// Before and after an outage of the endpoint, this call may be the only one that reaches the broker. A call soon
// after another sign of life is ignored.
func (b *Agents) recordCall(u *txn.Unit, c wire.Claims, cl record.Cluster) error {
	late := b.cfg.SilentFor / 14 // half of the time that wire.Patience adds to an outage of half an hour
	if b.cfg.Pace.Polls {
		late = b.cfg.Pace.Alive / 2
	}
	if cl.Command == "" || u.Now.Sub(cl.Nodes[c.Rank].Seen) < late {
		return nil
	}
	cl.Nodes[c.Rank].Seen = u.Now
	var d record.Decision
	d.Put(record.ClusterKey(cl.ID), cl)
	if err := u.Apply(d); err != nil {
		return err
	}
	err := u.Finish()
	if errors.Is(err, store.ErrConflict) { // the conflicting writer does not know of this call
		return b.recordAlive(u.Ctx, c, wire.Report{ID: "call"})
	}
	if err == nil {
		b.txns.Done(u)
	}
	return err
}

// Report handles a report of a node. A repeated report changes nothing.
func (b *Agents) Report(ctx context.Context, c wire.Claims, r wire.Report) error {
	if r.Event == wire.Alive {
		return b.recordAlive(ctx, c, r)
	}
	// The reports started and succeeded need no marker, because repeating them changes nothing.
	marked := r.Event != wire.Started && r.Event != wire.Succeeded
	return b.txns.Transact(ctx, fnAgent, c.Cluster+"/"+r.ID, marked, func(u *txn.Unit) error {
		cl, err := ownCluster(u, c)
		if errors.Is(err, record.ErrGone) && r.Event == wire.Succeeded && cl.Outcome == apitypes.OutcomeSucceeded &&
			cl.Job == c.Job {
			return record.ErrSkip // a repeated report: the agent did not get the first answer
		}
		if err != nil {
			return err
		}
		if r.Attempt != "" && r.Attempt != cl.ID {
			return record.ErrGone
		}
		st := attempt.Reporting{Cluster: cl, Rank: c.Rank, Now: u.Now}
		st.Cluster.Nodes = append([]record.Node(nil), cl.Nodes...)
		if err := b.loadReporting(u, &st, r.Event); err != nil {
			return err
		}
		if r.Event == wire.Checkpointed && st.Task.Attempt != cl.Attempt {
			return record.ErrGone // otherwise the agent would remove its successor's checkpoint
		}
		d := st.Decide(r, b.cfg)
		if r.Event == wire.NoticeSeen {
			return applyNotice(u, b.cfg, cl, d)
		}
		if r.Event == wire.Failed && r.Fault == wire.FaultDisk && cl.Assigned() {
			err := b.pools.Blame(u, cl, "its disk is full", func(rank int) bool { return rank == c.Rank })
			if err != nil {
				return err
			}
		}
		return u.Apply(d)
	})
}

// loadReporting loads, in one read, the other records that the decision on a report needs. Each task makes at least
// two reports, so only the necessary ones are read: started needs only the task, and neither started nor succeeded
// needs the attempt.
func (b *Agents) loadReporting(u *txn.Unit, st *attempt.Reporting, e wire.Event) (err error) {
	cl := &st.Cluster
	task, job, attempt := record.TaskKey(cl.Job, cl.Task), record.JobKey(cl.Job),
		record.AttemptKey(cl.Job, cl.Task, cl.Attempt)
	keys := []store.Key{attempt, task, job}
	switch e {
	case wire.Started:
		keys = keys[1:2]
	case wire.Succeeded:
		if cl.Chunk == 0 {
			keys = keys[1:]
		}
	default:
	}
	if err := u.Preload(keys...); err != nil {
		return err
	}
	if st.Task, _, err = recordcache.Get[record.Task](u, task); err != nil || e == wire.Started && st.Task.Gang == "" {
		cl.UpdateTask(&st.Task)
		return err
	}
	cl.UpdateTask(&st.Task)
	if st.Job, _, err = recordcache.Get[record.Job](u, job); err != nil {
		return err
	}
	spec, err := u.Spec(st.Job)
	if err != nil {
		return err
	}
	st.Keep = spec.KeepOnFailure
	st.Joinable = slices.ContainsFunc(spec.Joining(st.Task.Gang), func(i int) bool { return spec.Lead(i) == cl.Task })
	if st.Spec = &spec.Tasks[cl.Task]; st.Spec.Service != nil {
		return st.LoadServing(u, spec)
	}
	switch e {
	case wire.Succeeded:
		st.Chief = spec.Chief(cl.Task)
		if cl.Shared() {
			st.Uploads, err = b.uploads.Open(u, cl.ID)
		}
		if err != nil || cl.Chunk == 0 {
			return err
		}
		st.Members = spec.Tasks[cl.Task+1 : cl.Task+1+cl.Chunk]
	case wire.Started:
		return nil
	case wire.Failed:
		err = st.LoadDone(u, spec)
	default:
	}
	if err == nil {
		st.Attempt, _, err = recordcache.Get[apitypes.Attempt](u, attempt)
	}
	cl.UpdateAttempt(&st.Attempt)
	return err
}

// recordAlive records that a node is alive. This is by far the most frequent report, so it makes only one read and
// one write, and leaves no marker.
func (b *Agents) recordAlive(ctx context.Context, c wire.Claims, r wire.Report) error {
	return b.txns.Transact(ctx, fnAgent, c.Cluster+"/"+r.ID, false, func(u *txn.Unit) error {
		cl, err := ownCluster(u, c)
		if err != nil {
			return err
		}
		if r.Attempt != "" && r.Attempt != cl.ID {
			return record.ErrGone
		}
		cl.Nodes[c.Rank].Seen = u.Now
		cl.Moved(c.Rank, r.Moved, b.cfg.Stores)
		var d record.Decision
		d.Put(record.ClusterKey(cl.ID), cl)
		return u.Apply(d)
	})
}
