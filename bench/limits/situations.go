package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Maximum numbers of requests to the store: a few hundred, which at 10 ms each leave a function most of its time.
const (
	mostOfHello     = 100
	mostOfSession   = 300
	mostOfReconcile = 1000 // for an invocation: three requests for fifty jobs; a pass over 10,000 jobs is one invocation
	mostOfLook      = 300
	mostOfChange    = 100
)

// reduce makes the agent of a task call home that depends on many others, whose names have the maximum length.
func reduce(ctx context.Context, d *deployment, z sizes) error {
	name := func(i int) string { return fmt.Sprintf("part-%05d-%s", i, strings.Repeat("n", 128-11)) }
	job, err := d.submit(ctx, wide("default", z.parents, name, "reduce"), events.TypeTaskReady, events.TypeDAGAdvance)
	if err != nil {
		return err
	}
	done := record.Progress{
		Phases: bytes.Repeat([]byte{record.PhaseSucceeded}, z.parents+1), Succeeded: z.parents - 1,
	}
	done.Phases[0], done.Phases[z.parents] = record.PhaseReady, record.PhaseWaiting
	var b batch
	err = b.put(record.ProgressKey(job.ID), done)
	for i := range z.parents {
		err = errors.Join(err, b.put(record.TaskKey(job.ID, i), record.Task{
			Job: job.ID, Index: i, State: record.TaskSucceeded, Try: 1, Attempt: 1, Progress: 1, Place: "aws:us-east-1",
			Output: wire.OutputPrefix(job.ID+"/"+name(i), record.ClusterID(job.ID, i, 1)),
		}))
	}
	if err := errors.Join(err, d.write(ctx, b)); err != nil {
		return err
	}
	if err := d.broker.Functions.Emit(ctx, "bench", "last", events.TaskSucceeded{Job: job.ID, Task: 0}); err != nil {
		return err
	}
	if err := errors.Join(d.settle(ctx), d.restart()); err != nil {
		return err
	}
	end := d.measure(fmt.Sprintf("hello of a task with %s parents, answered with its work",
		text.Thousands(z.parents)), mostOfHello)
	w, err := d.hello(ctx, wire.Claims{
		Job: job.ID, Cluster: record.ClusterID(job.ID, z.parents, 1), Expires: d.clock.Now().Add(time.Hour),
	})
	end()
	if err == nil && (w.Command != wire.Run || len(w.Assignment.Parents) != z.parents) {
		err = fmt.Errorf("the agent is given the command %q", w.Command)
	}
	return err
}

// hello calls home as an agent does.
func (d *deployment) hello(ctx context.Context, c wire.Claims) (w wire.Work, err error) {
	signed, err := token.Mint(d.key, c)
	if err != nil {
		return w, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.server.URL+wire.PathHello,
		strings.NewReader(`{"address":"10.0.0.1","version":"bench"}`))
	if err != nil {
		return w, err
	}
	req.Header.Set("Authorization", "Bearer "+signed)
	req.Header.Set("Content-Type", "application/json")
	return w, get(req, &w)
}

// get makes a request and decodes its response.
func get(req *http.Request, out any) error {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read-only
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", res.Status, body)
	}
	if err != nil {
		return err
	}
	return decode(body, out)
}

func decode(body []byte, out any) error { return json.Unmarshal(body, out) }

// behind makes a queue admit jobs of one task behind a job whose many tasks wait because its budget is used up.
func behind(ctx context.Context, d *deployment, z sizes) error {
	if err := d.closed(ctx, "default", true); err != nil {
		return err
	}
	if err := d.exhausted(ctx, z.budgeted); err != nil {
		return err
	}
	d.clock.Advance(time.Second)
	if err := d.copies(ctx, "default", z.small, func(int) string { return "default" }); err != nil {
		return err
	}
	if err := errors.Join(d.closed(ctx, "default", false), d.restart()); err != nil {
		return err
	}
	what := fmt.Sprintf("a queue of %s behind one of %s whose budget is used up", text.Count(z.small, "job"),
		text.Count(z.budgeted, "task"))
	err := d.pass(ctx, "reconcile over "+what, mostOfReconcile, events.FnReconcile, events.BrokerReconcile{})
	for _, of := range []struct {
		what  string
		quota float64 // vCPUs; with a quota, a session looks further into the queue, to be fair between jobs
	}{{"a session of ", 0}, {"a session with a quota of ", 1 << 20}} {
		var b batch
		err = errors.Join(err, b.put(record.QueueKey("default"), apitypes.Queue{Name: "default", MaxVCPU: of.quota}),
			d.write(ctx, b), d.restart())
		if err == nil {
			err = d.pass(ctx, of.what+what, mostOfSession, events.FnSchedule, events.CapacityFreed{Queue: "default"})
		}
		if err == nil && d.rows[len(d.rows)-1].events[events.TypeTaskAdmitted] == 0 {
			err = errors.New("a session admits none of the jobs behind the budgeted one")
		}
	}
	return err
}

// closed closes or opens a queue without triggering a session.
func (d *deployment) closed(ctx context.Context, queue string, closed bool) error {
	var b batch
	return errors.Join(b.put(record.QueueKey(queue), apitypes.Queue{Name: queue, Closed: closed}), d.write(ctx, b))
}

// exhausted makes a job with the given number of tasks wait in the queue: one more task is running and has used up the
// job's budget.
func (d *deployment) exhausted(ctx context.Context, tasks int) error {
	const budget = 1000 // USD
	spec := wide("default", tasks+1, numbered, "")
	spec.Name, spec.Budget = "budgeted", budget
	job, err := d.submit(ctx, spec, events.TypeTaskReady, events.TypeDAGAdvance)
	if err != nil {
		return err
	}
	plan, err := d.unit(ctx).Plan(job)
	if err != nil {
		return err
	}
	var b batch
	err = errors.Join(d.run(ctx, &b, job, plan, 0),
		b.put(record.LedgerKey(job.ID), record.Ledger{ReservedUSD: budget, Outstanding: 1, VCPU: plan.Of(0).VCPU}),
		b.put(record.ProgressKey(job.ID), record.Progress{Phases: bytes.Repeat([]byte{record.PhaseReady}, tasks+1)}))
	for i := 1; i <= tasks; i++ {
		t := record.Task{Job: job.ID, Index: i, State: record.TaskQueued, Try: 1, ReadyAt: d.clock.Now()}
		w := record.WaitingOf(job, t)
		err = errors.Join(err, b.put(record.TaskKey(job.ID, i), t), b.put(record.WaitKey(job.Queue, w), w))
	}
	return errors.Join(err, d.write(ctx, b))
}

// copies submits a job of one task to a closed queue, and copies its records n times, under new IDs, each in the queue
// that in names.
func (d *deployment) copies(ctx context.Context, queue string, n int, in func(int) string) error {
	spec := wide(queue, 1, numbered, "")
	spec.Name = "small"
	job, err := d.submit(ctx, spec)
	if err != nil {
		return err
	}
	all, err := d.partition(ctx, record.JobPart(job.ID))
	if err != nil {
		return err
	}
	task := record.Task{Index: 0, ReadyAt: d.clock.Now()}
	var b batch
	for i := range n - 1 {
		id := fmt.Sprintf("copy-%06d", i)
		named := []string{`"` + job.ID + `"`, `"` + id + `"`, `"queue":"` + queue + `"`, `"queue":"` + in(i) + `"`}
		for _, blob := range []record.Blob{job.Spec, job.Plan, job.Bids} { // no two jobs share their tokens
			if !blob.IsZero() {
				named = append(named, blob.Token, fmt.Sprint(blob.Token, "-", i))
			}
		}
		rename := strings.NewReplacer(named...)
		for _, r := range all {
			body := r.Body
			if bytes.HasPrefix(body, []byte("{")) {
				body = []byte(rename.Replace(string(body)))
			}
			b = append(b, store.Write{
				Key:    store.Key{Partition: record.JobPart(id), Sort: rename.Replace(r.Key.Sort)},
				Expect: store.Any, Body: body,
			})
		}
		w := record.WaitingOf(record.Job{ID: id}, task)
		err = errors.Join(err, b.put(record.WaitKey(in(i), w), w),
			b.put(record.ActiveKey(id), record.JobIndex{ID: id, Submitted: job.Submitted}))
	}
	return errors.Join(err, d.write(ctx, b))
}

// partition reads all records of a partition.
func (d *deployment) partition(ctx context.Context, name string) (all []store.Record, err error) {
	var page store.Page
	for more := true; more; page.After = all[len(all)-1].Key.Sort {
		var records []store.Record
		if records, more, err = d.store.Query(ctx, name, "", page); err != nil || len(records) == 0 {
			return all, err
		}
		all = append(all, records...)
	}
	return all, nil
}

// queues lists many queues, each of which has a waiting job.
func queues(ctx context.Context, d *deployment, z sizes) error {
	name := func(i int) string { return fmt.Sprintf("queue-%04d", i) }
	var b batch
	var err error
	for i := range z.queues {
		err = errors.Join(err, b.put(record.QueueKey(name(i)), apitypes.Queue{Name: name(i), MaxVCPU: 64}))
	}
	last := name(z.queues - 1)
	err = errors.Join(err, d.write(ctx, b), d.closed(ctx, last, true))
	if err == nil {
		err = d.copies(ctx, last, z.queues, name)
	}
	if err := errors.Join(err, d.restart()); err != nil {
		return err
	}
	for _, look := range []struct {
		what, path string
		most       int
	}{
		{"the list of %s", "/v1/queues", mostOfLook},
		// Waiting tasks are counted for each queue, many at once: time is the limit.
		{"the dashboard's list of %s, with waiting tasks", "/v1/queues?waiting=true", mostOfLook + z.queues},
	} {
		end := d.measure(fmt.Sprintf(look.what, text.Count(z.queues, "queue")), look.most)
		var list struct{ Queues []json.RawMessage }
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.server.URL+look.path, http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+apitest.Token)
		if err := get(req, &list); err != nil {
			return err
		}
		if end(); len(list.Queues) != z.queues {
			return fmt.Errorf("%d queues are listed", len(list.Queues))
		}
	}
	return d.pass(ctx, fmt.Sprintf("reconcile over %s with a job each", text.Count(z.queues, "queue")), mostOfReconcile,
		events.FnReconcile, events.BrokerReconcile{})
}

// watched describes the job that the user watches.
func (z sizes) watched() string {
	return fmt.Sprintf("a job of %s, %d of them running", text.Count(z.tasks, "task"), z.running)
}

// look shows a large job and follows it.
func look(ctx context.Context, d *deployment, z sizes) error {
	job, err := d.halfway(ctx, z)
	if err := errors.Join(err, d.restart()); err != nil {
		return err
	}
	c := d.client()
	for _, when := range []string{"", " again"} {
		end := d.measure("`tradewind status`"+when+" of "+z.watched(), mostOfLook)
		if err := status(ctx, c, job.ID, z.tasks); err != nil {
			return err
		}
		end()
	}
	return errors.Join(d.restart(), d.follow(ctx, job.ID, z))
}

// status makes the requests of `tradewind status` to a running broker.
func status(ctx context.Context, c *client.Client, id string, tasks int) error {
	const listed = 1000
	if _, err := c.Jobs(ctx, listed); err != nil {
		return err
	}
	d, err := c.Job(ctx, id)
	if err != nil {
		return err
	}
	if len(d.TaskList) != tasks {
		return fmt.Errorf("%d tasks are shown", len(d.TaskList))
	}
	_, err = c.Jobs(ctx, 1)
	return err
}

// halfway creates a large job whose last task depends on all others; the last of those are running, the others
// succeeded.
func (d *deployment) halfway(ctx context.Context, z sizes) (record.Job, error) {
	spec := wide("default", z.tasks-1, numbered, "merge")
	job, err := d.submit(ctx, spec, events.TypeTaskReady, events.TypeDAGAdvance)
	if err != nil {
		return job, err
	}
	plan, err := d.unit(ctx).Plan(job)
	if err != nil {
		return job, err
	}
	over := z.tasks - 1 - z.running
	phases := bytes.Repeat([]byte{record.PhaseSucceeded}, z.tasks)
	phases[z.tasks-1] = record.PhaseWaiting
	var b batch
	for i := over; i < z.tasks-1; i++ {
		phases[i] = record.PhaseReady
		err = errors.Join(err, d.run(ctx, &b, job, plan, i))
	}
	err = errors.Join(err, b.put(record.ProgressKey(job.ID), record.Progress{Phases: phases, Succeeded: over}),
		b.put(record.LedgerKey(job.ID), record.Ledger{SpentUSD: 42, Outstanding: z.running}))
	for i := range over {
		a := attempt(job, plan.Of(i), i, d)
		a.Ended, a.Outcome, a.USD = a.Started.Add(time.Minute), apitypes.OutcomeSucceeded, 0.0021
		err = errors.Join(err, b.put(record.TaskKey(job.ID, i), d.succeeded(job.ID, i)),
			b.put(record.AttemptKey(job.ID, i, 1), a))
	}
	return job, errors.Join(err, d.write(ctx, b))
}

// succeeded is a succeeded task.
func (d *deployment) succeeded(job string, index int) record.Task {
	at := d.clock.Now()
	return record.Task{Job: job, Index: index, State: record.TaskSucceeded, Try: 1, Attempt: 1, Plan: 1, ReadyAt: at,
		StartedAt: at, EndedAt: at.Add(time.Minute)}
}

// follow follows a job as the dashboard does, until it has received everything, and then until one more task succeeds.
func (d *deployment) follow(ctx context.Context, job string, z sizes) error {
	changed, last := 0, z.tasks-2
	end := d.measure("the dashboard's first load of "+z.watched(), mostOfLook)
	for u, err := range d.client().Follow(ctx, job) {
		if err != nil {
			return err
		}
		if changed += len(u.Tasks); len(u.Tasks) == 0 || changed < z.tasks {
			continue
		}
		end()
		if changed > z.tasks {
			return nil
		}
		end = d.measure("the dashboard's refresh of "+z.watched()+", one of which ends", mostOfChange)
		var b batch
		if err := errors.Join(b.put(record.TaskKey(job, last), d.succeeded(job, last)), d.write(ctx, b)); err != nil {
			return err
		}
	}
	return errors.New("the stream ends before the job")
}
