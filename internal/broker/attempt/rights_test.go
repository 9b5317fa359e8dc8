package attempt

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// A task can borrow credentials only for the folders that it mounts. It can write only to folders that it mounts for
// writing.
func TestLoansOfTask(t *testing.T) {
	task := dag.Task{Name: "t", Run: "x", Inputs: []dag.Input{
		{URI: "s3://copied/a/", Path: "a"},
		{URI: "s3://read/b", Path: "b", Mount: dag.MountRead},
		{URI: "s3://write/c/", Path: "c", Mount: dag.MountWrite},
		{URI: "not a place", Path: "d", Mount: dag.MountRead},
	}}
	standIn := task
	standIn.Run, standIn.Recorded = "", time.Hour
	for _, c := range []struct {
		of   *dag.Task
		loan grant.Loan
		ok   bool
	}{
		{&task, grant.Loan{Prefix: "s3://read/b/"}, true},
		{&task, grant.Loan{Prefix: "s3://read/b"}, true},
		{&task, grant.Loan{Prefix: "s3://read/b/", Write: true}, false},
		{&task, grant.Loan{Prefix: "s3://read/"}, false},
		{&task, grant.Loan{Prefix: "s3://write/c/", Write: true}, true},
		{&task, grant.Loan{Prefix: "s3://write/c/"}, true},
		{&task, grant.Loan{Prefix: "s3://copied/a/"}, false},
		{&task, grant.Loan{Prefix: "not a place"}, false},
		{&task, grant.Loan{Prefix: "another"}, false},
		{&standIn, grant.Loan{Prefix: "s3://read/b/"}, false},
	} {
		if err := CheckLoan(c.of, c.loan); (err == nil) != c.ok || err != nil && !errors.Is(err, grant.ErrOutside) {
			t.Errorf("%+v: %v", c.loan, err)
		}
	}
}

// Only the first node of a task may write checkpoints. A task may write to folders that it mounts for writing, except
// to the shared folder of packs, which has other users' uploads.
func TestWriteScopeOfNode(t *testing.T) {
	s := roles(t)
	s.cfg.StoreURL = "s3://home"
	digest := string(pack.DigestOf([]byte("x")))
	packed, piece := pack.Scheme+"://"+digest+"/x", "s3://home/"+pack.Prefix+digest
	own := func(seq int) string { return "s3://home/" + wire.CheckpointPrefix("j/first", "j.0.1", seq) }
	cl := of[record.Cluster](s, record.ClusterKey("j.0.1"))
	for _, c := range []struct {
		name          string
		saves         bool
		rank          int
		reads, mounts string // reads: an input that is copied; mounts: one that is mounted for writing
		named         string
		want          []string // in addition to its output
		read          []string // in addition to its inputs
	}{
		{name: "the first node saves", saves: true, named: own(1) + "x", want: []string{own(1)}},
		{name: "another node", saves: true, rank: 1, named: own(1) + "x"},
		{name: "one that keeps none", named: own(1) + "x"},
		{name: "there is none of number 0", saves: true, named: own(0) + "x"},
		{name: "nor of none", saves: true, named: "s3://home/j/first/ckpt/x"},
		{name: "elsewhere", saves: true, named: "s3://home/j/second/ckpt/1-x/y"},
		{name: "what it mounts", mounts: "s3://b/x", want: []string{"s3://b/x"}},
		{name: "packs", mounts: "s3://home/packs/x"},
		{name: "the folder of all packs", mounts: "s3://home"},
		{name: "no place", mounts: "elsewhere", want: []string{"elsewhere"}},
		{name: "the pieces of a pack that it reads", reads: packed, named: piece, read: []string{piece}},
		{name: "what is no piece", reads: packed, named: piece + "x"},
	} {
		read := []string{""}
		s.spec.Tasks[0].Inputs, s.spec.Tasks[0].Checkpoint = nil, nil
		if in := c.reads + c.mounts; in != "" {
			read = append(read, in)
			s.spec.Tasks[0].Inputs = []dag.Input{{URI: in}}
		}
		if c.mounts != "" {
			s.spec.Tasks[0].Inputs[0].Mount = dag.MountWrite
		}
		if c.saves {
			s.spec.Tasks[0].Checkpoint = &dag.Checkpoint{Path: "c"}
		}
		got, err := Scope(s, s.cfg, of[record.Job](s, record.JobKey("j")), cl, c.rank, []string{c.named})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := append([]string{fmt.Sprintf("s3://home/j/first/out/j.0.1/%d/", c.rank)}, c.want...)
		if fmt.Sprint(got.Write) != fmt.Sprint(want) {
			t.Errorf("%s: it writes %v, want %v", c.name, got.Write, want)
		}
		if read = append(read, c.read...); fmt.Sprint(got.Read) != fmt.Sprint(read) {
			t.Errorf("%s: it reads %v, want %v", c.name, got.Read, read)
		}
	}
}

// A task with one node may write to the URI of an output. If a task has several nodes, each may write only to its own
// folder below that URI.
func TestWriteScopeOutsideStore(t *testing.T) {
	s := roles(t)
	s.cfg.StoreURL = "s3://home"
	for task, want := range map[int]string{0: "s3://b/out/1/", 1: "s3://b/out/"} {
		s.spec.Tasks[task].Outputs = []dag.Output{{Name: "o", Path: "o", URI: "s3://b/out/"}, {Name: "p", Path: "p"}}
		cl := of[record.Cluster](s, record.ClusterKey(record.ClusterID("j", task, 1)))
		got, err := Scope(s, s.cfg, of[record.Job](s, record.JobKey("j")), cl, len(cl.Nodes)-1, nil)
		if err != nil || len(got.Write) != 2 || got.Write[1] != want {
			t.Errorf("of %d nodes the last writes %v, want %s: %v", len(cl.Nodes), got.Write, want, err)
		}
	}
}

// The driver gets the placement rules of a task, except those that the region of its machines already satisfies.
func TestPlacementRulesForDriver(t *testing.T) {
	spec := &dag.Job{
		Placement: []dag.Placement{
			{Spread: dag.LevelRegion, Of: []string{"a", "b"}}, {Spread: dag.LevelZone, Max: 2, Of: []string{"a", "b"}},
			{Pack: dag.LevelRack, Of: []string{"b"}},
		},
		Tasks: []dag.Task{{Name: "a", Labels: map[string]string{"app": "a"}, Placement: []dag.Placement{
			{Apart: map[string]string{"app": "db"}, By: dag.LevelRegion},
			{Apart: map[string]string{"app": "web"}, By: dag.LevelZone},
		}}, {Name: "b"}},
	}
	st := Buying{Job: record.Job{ID: "j"}, Spec: &spec.Tasks[0], job: spec}
	rules, labels := st.Rules()
	want := []cloud.Rule{{Group: "j/1", Spread: "zone", Most: 2}, {Apart: map[string]string{"app": "web"}, By: "zone"}}
	if fmt.Sprintf("%+v", rules) != fmt.Sprintf("%+v", want) || labels["app"] != "a" {
		t.Errorf("%+v of %v, want %+v", rules, labels, want)
	}
}

// The machines of a failed task are kept for the time that the job states. Those of a service's replica are not kept,
// because a replica is restarted.
func TestAssignmentStatesHowLongToKeepFailures(t *testing.T) {
	for _, c := range []struct {
		keep    time.Duration
		service bool
		want    time.Duration
	}{{0, false, 0}, {time.Hour, false, time.Hour}, {time.Hour, true, 0}} {
		spec := &dag.Job{KeepOnFailure: c.keep, Tasks: []dag.Task{{Name: "t", Run: "x"}}}
		if c.service {
			spec.Tasks[0].Service = &dag.Service{Of: "t", Port: 80}
		}
		a := Assignment(config.Default(), record.Job{ID: "j"}, spec, record.Cluster{}, record.Task{},
			apitypes.Attempt{}, Inherited{})
		if a.KeepOnFailure != c.want || (a.Service != nil) != c.service {
			t.Errorf("%+v: kept for %v, a service: %v", c, a.KeepOnFailure, a.Service != nil)
		}
	}
}

// In a broker with compressed time, at any scale, a replica that is no longer ready must have enough time for the
// probes that make it ready again.
func TestReplicaPatienceInCompressedTime(t *testing.T) {
	for _, scale := range []float64{1, 0.01, 0.0001} {
		cfg := config.Default()
		cfg.Scale = scale
		spec := &dag.Job{Tasks: []dag.Task{{Name: "t", Run: "x", Service: &dag.Service{Of: "t", Port: 80}}}}
		s := serviceOf(cfg, spec, 0)
		if s.Patience <= wire.UnreadyAfter*s.Every || s.Every <= 0 || s.InitialDelay < s.Every {
			t.Errorf("at a scale of %v: %+v", scale, s)
		}
	}
}

// A cluster gets the secrets of its version of the job. Versions of older brokers have no secrets of their own: they
// get those of the first version.
func TestSecretsOfCluster(t *testing.T) {
	s := roles(t)
	job := record.Job{ID: "j", Spec: record.Blob{Version: 2}, Was: []record.Blob{{Version: 1}}}
	has := func(version int) string {
		got, found, err := SecretsOf(s, job, record.Cluster{Spec: version})
		if err != nil || !found {
			return fmt.Sprint(found, err)
		}
		return string(got.Sealed)
	}
	if got := has(2); got != "false <nil>" {
		t.Errorf("without any it has %q", got)
	}
	s.put(record.SecretsKey("j", 1), record.Secrets{Sealed: []byte("first")})
	if got := has(1) + has(2); got != "firstfirst" {
		t.Errorf("previous and current: %q", got)
	}
	s.put(record.SecretsKey("j", 2), record.Secrets{Sealed: []byte("second")})
	if got := has(1) + has(2); got != "firstsecond" {
		t.Errorf("previous and current: %q", got)
	}
	if _, found, err := SecretsOf(&flaky{stage: s}, job, record.Cluster{Spec: 2}); found || !errors.Is(err, errStore) {
		t.Errorf("with a failing store: %v, %v", found, err)
	}
}

// The text names the user who suspended the job, and the reason.
func TestSuspensionText(t *testing.T) {
	for want, s := range map[string]apitypes.Suspension{
		"suspended":                     {},
		"suspended by ann":              {By: "ann"},
		"suspended: full":               {Reason: "full"},
		"suspended by ann: a wrong run": {By: "ann", Reason: "a wrong run"},
	} {
		if got := SuspensionText(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
