package broker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// signs grants everything, so that a refusal comes from the scope. It lists the objects that it holds and records
// what is removed.
type signs struct {
	grant.Store
	holds   []string
	removed []string
}

func (s *signs) Sign(_ context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	return make([]grant.Grant, len(wants)), nil
}

func (s *signs) Lend(context.Context, grant.Loan) (grant.Credentials, error) {
	return grant.Credentials{}, nil
}

func (s *signs) List(_ context.Context, prefix, _ string) (p grant.Page, err error) {
	for _, uri := range s.holds {
		if strings.HasPrefix(uri, prefix) {
			p.Objects = append(p.Objects, grant.Listed{URI: uri})
		}
	}
	return p, nil
}

func (s *signs) Remove(_ context.Context, uri string) error {
	s.removed = append(s.removed, uri)
	return nil
}

// TestTaskKeepsDataInRegionalStore: outputs and checkpoints are in the store of the region, readers get their
// locations, and each may access its own.
func TestTaskKeepsDataInRegionalStore(t *testing.T) {
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.StoreURL, cfg.Private = "s3://home", []string{"agent/"}
	cfg.Stores = config.Stores{Moves: moves, URLs: map[string]string{"aws:us-east-1": "s3://home", "aws:eu-west-1": "s3://far"}}
	p := &agentBench{bench: newBenchOf(t, cfg)}
	opt := planner.DefaultOptions()
	opt.Now, opt.Stores = nil, cfg.Stores
	data := &signs{}
	ports := p.b.Ports()
	ports.Data, ports.Planner = data, planner.New(c, moves, opt)
	p.b = broker.New(cfg, ports)
	p.submit(`{
  far: {run: x, inputs: [{uri: "s3://home/packs/", path: p, mount: write}], outputs: [{name: o, size: 1GiB}], resources: {cpus: 4, cloud: aws, region: eu-west-1}},
  home: {run: x, after: [far], checkpoint: {path: c}, resources: {cpus: 4, cloud: aws, region: us-east-1}},
  last: {run: x, after: [home, far], resources: {cpus: 4, cloud: aws, region: eu-west-1}}}`, "1")
	p.deliverAll()
	done := func(task int) *wire.Assignment {
		t.Helper()
		w := hello(t, p.b, p.claims(task, 0))
		told(t, "the node", w, wire.Run, 1)
		return w.Assignment
	}
	report := func(task int, r wire.Report) {
		t.Helper()
		if err := p.b.Agents.Report(t.Context(), p.claims(task, 0), r); err != nil {
			t.Fatal(err)
		}
		p.deliverAll()
	}
	may := func(task int, op grant.Op, uri string, want bool) {
		t.Helper()
		_, err := p.b.Agents.Grant(t.Context(), p.claims(task, 0), grant.Want{Op: op, URI: uri})
		if (err == nil) != want || err != nil && !errors.Is(err, grant.ErrOutside) {
			t.Errorf("task %d, %s of %s: %v", task, op, uri, err)
		}
	}
	a := done(0)
	if a.Store != "s3://far" {
		t.Errorf("far keeps its data in %s", a.Store)
	}
	out := "s3://far/" + p.job + "/far/out/" + record.ClusterID(p.job, 0, 1) + "/"
	may(0, grant.Put, out+"0/files/x", true)
	may(0, grant.Put, strings.Replace(out, "far", "home", 1)+"0/files/x", false)
	may(0, grant.Put, "s3://far/agent/x", false)
	may(0, grant.Put, "s3://home/packs/x", false) // other users' uploads, though it mounts the folder
	report(0, wire.Report{ID: "s", Event: wire.Started})
	report(0, wire.Report{ID: "d", Event: wire.Succeeded})

	a = done(1)
	if a.Store != "s3://home" || a.Parents["far"] != out {
		t.Errorf("home keeps its data in %s, and reads %v", a.Store, a.Parents)
	}
	may(1, grant.Get, out+"0/files/x", true)
	may(1, grant.Put, out+"0/files/x", false)
	may(1, grant.Put, "s3://home/"+p.job+"/home/out/"+record.ClusterID(p.job, 1, 1)+"/0/files/x", true)
	report(1, wire.Report{ID: "s", Event: wire.Started})
	ckpt := wire.CheckpointPrefix(a.Prefix, a.Attempt, 3)
	report(1, wire.Report{ID: "c", Event: wire.Checkpointed, Seq: 3, Prefix: ckpt})
	old := wire.CheckpointPrefix(a.Prefix, a.Attempt, 1)
	data.holds = []string{"s3://home/" + old + "files/x", "s3://home/" + ckpt + "files/x", "s3://far/" + old + "files/x"}
	if err := p.b.Agents.Prune(t.Context(), p.claims(1, 0)); err != nil || !slices.Equal(data.removed, data.holds[:1]) {
		t.Errorf("%v, removed %v", err, data.removed)
	}
	report(1, wire.Report{ID: "d", Event: wire.Succeeded})

	a = done(2)
	in := p.job + "/home/out/" + record.ClusterID(p.job, 1, 1) + "/"
	if a.Store != "s3://far" || a.Parents["far"] != strings.TrimPrefix(out, "s3://far/") || a.Parents["home"] != "s3://home/"+in {
		t.Errorf("last keeps its data in %s, and reads %v", a.Store, a.Parents)
	}
	may(2, grant.Get, "s3://home/"+in+"0/files/x", true)
	may(2, grant.Get, out+"0/files/x", true)
}

// TestJobStoresNothingOutsideItsRegions: a job without a store in its regions is refused before anything is bought.
func TestJobStoresNothingOutsideItsRegions(t *testing.T) {
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.StoreURL = "s3://home"
	cfg.Stores = config.Stores{Moves: moves, URLs: map[string]string{"aws:us-east-1": "s3://home", "gcp:europe-west4": "gs://eu"}}
	p := &agentBench{bench: newBenchOf(t, cfg)}
	spec, err := read.Job("j.yaml", strings.NewReader(
		"apiVersion: tradewind/v1\nname: j\nregions: [eu]\ntasks: {t: {run: x, resources: {cpus: 4, cloud: aws, region: eu-north-1}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := p.b.Users.Submit(t.Context(), broker.Submission{Spec: spec, Token: "1"})
	if err != nil {
		t.Fatal(err)
	}
	p.job = job.ID
	p.deliverAll()
	if w := hello(t, p.b, p.claims(0, 0)); w.Assignment == nil || w.Assignment.Store != "gs://eu" {
		t.Errorf("it keeps its data in %+v", w.Assignment)
	}
}
