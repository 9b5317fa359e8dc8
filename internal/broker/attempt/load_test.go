package attempt

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// flaky is a store that answers a given number of requests and fails all later ones. It counts the requests.
type flaky struct {
	*stage
	answers      int
	single, many int // number of records read by key, and of ranges read
}

var errStore = errors.New("the store is away")

func (f *flaky) ask() error {
	if f.answers--; f.answers < 0 {
		return errStore
	}
	return nil
}

func (f *flaky) Preload(...record.Key) error { return f.ask() }

func (f *flaky) Find(key record.Key) (*recordcache.Slot, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	f.single++
	return f.stage.Find(key)
}

func (f *flaky) FindAll(r recordcache.Span) ([]*recordcache.Slot, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	f.many++
	return f.stage.FindAll(r)
}

func (f *flaky) Spec(j record.Job) (*dag.Job, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	return f.stage.Spec(j)
}

func (f *flaky) Plan(j record.Job) (*record.Plan, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	return f.stage.Plan(j)
}

func (f *flaky) Bids(j record.Job) (*record.Bids, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	return f.stage.Bids(j)
}

// running returns the records of a running gang of two tasks with one joined task. The gang's tasks are children of a
// third task. One runs on spot, the other on a reservation.
func running(t *testing.T) *stage {
	t.Helper()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	s := &stage{t: t, records: map[record.Key]any{}, begun: now, now: now, no: 1, cfg: config.Default()}
	s.cfg.StoreURL = "s3://home"
	two := dag.Task{Name: "two", Run: "x", Nodes: 1, Gang: "g", Time: dag.TimeEstimate{Default: time.Hour},
		Checkpoint: &dag.Checkpoint{Path: "c"}, Resources: []dag.Resources{{}}}
	one, more := two, two
	one.Name, one.On = "one", []dag.Reaction{{Event: dag.TaskCompleted, Action: dag.Complete}}
	more.Name, more.Gang, more.Joins, more.Role = "more", "", "g", "one"
	s.spec = dag.Job{Tasks: []dag.Task{{Name: "get", Run: "x", Nodes: 1}, one, two, more},
		Edges: []dag.Edge{{From: 0, To: 1}, {From: 0, To: 2}}}
	offer := apitypes.Offer{Cloud: "aws", Region: "r", Zone: "z", InstanceType: "m", Spot: true, USDPerHour: 1,
		Reservation: "cr-1", Reserved: 9}
	s.plan = record.Plan{Version: 3, Choice: []int32{0, 0, 0, 0},
		Offers: []record.Planned{{ID: "aws/r/z/m/spot", Offer: offer}}}
	late := now.Add(65 * time.Minute)
	s.bids = record.Bids{Table: []int32{-1, -1, -1, -1}, FinishBy: []time.Time{late, late, late, late}}
	s.put(record.JobKey("j"), record.Job{ID: "j", State: apitypes.JobRunning, Tasks: 4, Deadline: late,
		Spec: record.Blob{Version: 1, Name: "spec"}, Plan: record.Blob{Version: 3, Name: "plan"},
		Bids: record.Blob{Version: 3, Name: "bids"}})
	s.put(record.TaskKey("j", 0), record.Task{Job: "j", State: record.TaskSucceeded, Output: "j/get/out/j.0.1"})
	for i := 1; i <= 3; i++ {
		id := record.ClusterID("j", i, 1)
		s.put(record.TaskKey("j", i), record.Task{Job: "j", Index: i, State: record.TaskRunning, Attempt: 1, Plan: 3,
			Gang: s.spec.Tasks[i].Gang, Joins: s.spec.Tasks[i].Joins})
		s.put(record.AttemptKey("j", i, 1), apitypes.Attempt{Job: "j", Task: i, Number: 1, Plan: 3, Offer: offer,
			OfferID: "aws/r/z/m/spot", Nodes: 1, ResumedFrom: "j/" + s.spec.Tasks[i].Name + "/ckpt/j.0/1"})
		s.put(record.ClusterKey(id), record.Cluster{ID: id, Job: "j", Task: i, Attempt: 1, State: record.ClusterUp,
			Offer: offer, Nodes: []record.Node{{Machine: "i", Address: "10.0.0.1"}}, Started: true, Command: "run",
			Launched: now, Running: now})
	}
	s.put(record.HeldKey(record.ReservedID("aws", "cr-1")), record.Occupancy{
		Clusters: map[string]int{"j.1.1": 1, "j.2.1": 1}})
	s.put(record.MarketKey(record.MarketID("aws/r/z/m/spot")), record.MarketRecord{USD: 0.5})
	return s
}

// readings returns all functions that load the records of decisions on attempts, by name.
func readings(s *stage) map[string]func(recordcache.Reader) (any, error) {
	job := of[record.Job](s, record.JobKey("j"))
	cl := of[record.Cluster](s, record.ClusterKey("j.1.1"))
	losing := Losing{Job: job, Task: of[record.Task](s, record.TaskKey("j", 1)),
		Attempt: of[apitypes.Attempt](s, record.AttemptKey("j", 1, 1)), Cluster: cl}
	return map[string]func(recordcache.Reader) (any, error){
		"what is bought": func(r recordcache.Reader) (any, error) { return LoadBuying(r, "j", 1, 1) },
		"what is bought, again": func(r recordcache.Reader) (any, error) {
			return Buying{Job: job, Cluster: cl}.Reload(r)
		},
		"what is lost": func(r recordcache.Reader) (any, error) {
			l, found, err := LoadLosing(r, "j.1.1")
			return []any{l, found}, err
		},
		"what is released": func(r recordcache.Reader) (any, error) {
			cl, a, found, err := LoadReleased(r, "j.1.1", s.now.Add(time.Hour))
			return []any{cl, a, found}, err
		},
		"the tasks and their clusters": func(r recordcache.Reader) (any, error) {
			tasks, clusters, err := TasksNow(r, "j")
			return []any{tasks, clusters}, err
		},
		"the gang":               func(r recordcache.Reader) (any, error) { return GangOf(r, job, 1) },
		"those that join":        func(r recordcache.Reader) (any, error) { return JoiningOf(r, job, 1, true) },
		"the gang as it is told": func(r recordcache.Reader) (any, error) { return Gang(r, job, &s.spec, cl) },
		"whether the work is done": func(r recordcache.Reader) (any, error) {
			st := Reporting{Cluster: cl}
			st.Cluster.Task = 2
			err := st.LoadDone(r, &s.spec)
			return st.Done, err
		},
		"what is served": func(r recordcache.Reader) (any, error) {
			st := Reporting{Job: job, Cluster: cl}
			err := st.LoadServing(r, &s.spec)
			return st, err
		},
		"an update":        func(r recordcache.Reader) (any, error) { return LoadRolling(r, job, &s.spec) },
		"parents' outputs": func(r recordcache.Reader) (any, error) { return ParentOutputs(r, s.cfg, job, &s.spec, cl) },
		"what may be read": func(r recordcache.Reader) (any, error) {
			return Scope(r, s.cfg, job, cl, 0, []string{"s3://home/j/get/out/f"})
		},
		"where it is saved": func(r recordcache.Reader) (any, error) { return Checkpoints(r, s.cfg, job, cl, "") },
		"whether it stays": func(r recordcache.Reader) (any, error) {
			return DecideWatched(r, s.cfg, losing, s.now.Add(time.Hour))
		},
		"whether it begins too late": func(r recordcache.Reader) (any, error) {
			var d record.Decision
			d.Emit(events.TaskReady{Job: "j", Task: 1, Try: 1})
			err := DecideTooLate(r, s.cfg, job, &s.spec, &d, s.now)
			return d, err
		},
	}
}

// If a read of the store fails, the decision must fail, too, and is retried. If it took missing answers for missing
// records, it would give up machines that exist, or buy them twice.
func TestStoreFailureIsNotEmptyResult(t *testing.T) {
	s := running(t)
	for name, read := range readings(s) {
		whole, err := read(&flaky{stage: s, answers: 1000})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		reads := 0
		for ; ; reads++ {
			got, err := read(&flaky{stage: s, answers: reads})
			if err == nil {
				if !reflect.DeepEqual(got, whole) {
					t.Errorf("%s: after %d answers it is %+v, but %+v from a store that does not fail", name,
						reads, got, whole)
				}
				break
			}
			if !errors.Is(err, errStore) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if reads == 0 {
			t.Errorf("%s is not read", name)
		}
	}
}

// Loaders return the stored records. If a record is missing, they report that instead of an error.
func TestLoadersReturnStoredRecords(t *testing.T) {
	s := running(t)
	st, err := LoadBuying(s, "j", 1, 1)
	if err != nil || st.Job.ID != "j" || st.Attempt.OfferID == "" ||
		st.Spec.Name != "one" || len(st.held.Clusters) != 2 {
		t.Errorf("bought: %+v, %v", st, err)
	}
	again, err := Buying{Job: st.Job, Cluster: st.Cluster}.Reload(s)
	if err != nil || !again.Exists || again.Job.Tasks != 4 {
		t.Errorf("bought again: %+v, %v", again, err)
	}
	l, found, err := LoadLosing(s, "j.1.1")
	if err != nil || !found || l.Job.ID != "j" || l.Task.Index != 1 ||
		l.Attempt.Number != 1 || l.Cluster.ID != "j.1.1" {
		t.Errorf("lost: %+v, %v, %v", l, found, err)
	}
	cl, a, found, err := LoadReleased(s, "j.1.1", s.now.Add(time.Hour))
	if err != nil || !found || cl.Rate() != 0.5 || a.Number != 1 || !a.Started.Equal(s.now) {
		t.Errorf("released: %+v of %+v, %v, %v", cl, a, found, err)
	}
	for _, gone := range []record.Key{record.AttemptKey("j", 1, 1), record.TaskKey("j", 1), record.JobKey("j"),
		record.ClusterKey("j.1.1")} {
		before := s.records[gone]
		delete(s.records, gone)
		if _, found, err := LoadLosing(s, "j.1.1"); found || err != nil {
			t.Errorf("without %s: %v, %v", gone.Sort, found, err)
		}
		if _, err := LoadBuying(s, "j", 1, 1); errors.Is(err, record.ErrSkip) == (gone == record.ClusterKey("j.1.1")) {
			t.Errorf("without %s it is bought: %v", gone.Sort, err)
		}
		s.records[gone] = before
	}
	if _, _, found, err := LoadReleased(s, "j.2.9", s.now); found || err != nil {
		t.Errorf("a missing cluster: %v, %v", found, err)
	}
}

// A task that is saving its work is planned like a queued one. An earlier cluster of the task has no influence.
func TestSavingTasksCountAsQueued(t *testing.T) {
	s := running(t)
	for i, attempt := range map[int]int{1: 1, 2: 2} {
		cl := of[record.Cluster](s, record.ClusterKey(record.ClusterID("j", i, 1)))
		cl.State, cl.MinPlan = record.ClusterDoomed, 4
		s.put(record.ClusterKey(cl.ID), cl)
		task := of[record.Task](s, record.TaskKey("j", i))
		task.Attempt = attempt
		s.put(record.TaskKey("j", i), task)
	}
	tasks, _, err := TasksNow(s, "j")
	if err != nil || len(tasks) != 4 || tasks[1].State != record.TaskQueued || tasks[2].State != record.TaskRunning {
		t.Errorf("%+v, %v", tasks, err)
	}
}

// A few tasks of a job are read by key, and many are read as pages of the job's partition. A page costs less than a
// hundred keys, and more than one key.
func TestManyTasksAreReadAsPages(t *testing.T) {
	for _, c := range []struct {
		of, wanted int
		pages      bool
	}{{100, 50, false}, {10_000, 200, false}, {1000, 500, true}, {500, 500, true}} {
		s := running(t)
		var wanted []int32
		for i := range c.of {
			s.put(record.TaskKey("j", i), record.Task{Job: "j", Index: i})
			if i >= c.of-c.wanted {
				wanted = append(wanted, int32(i)) //nolint:gosec // few
			}
		}
		r := &flaky{stage: s, answers: 100_000}
		found, err := LoadTasks(r, record.Job{ID: "j", Tasks: c.of}, wanted)
		if err != nil || len(found) != c.wanted || found[0].Index != c.of-c.wanted {
			t.Errorf("%d of %d: %d found, %v", c.wanted, c.of, len(found), err)
		}
		if (r.many > 0) != c.pages || (r.single > 0) == c.pages {
			t.Errorf("%d of %d: %d read by key, and %d pages", c.wanted, c.of, r.single, r.many)
		}
	}
}
