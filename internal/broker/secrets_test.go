package broker_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// secretBench is a broker that keeps secrets, with one job: a service of one replica, each version of which has its own
// secrets.
type secretBench struct{ *agentBench }

func newSecretBench(t *testing.T) secretBench {
	t.Helper()
	s := secretBench{&agentBench{bench: newBench(t)}}
	ports := s.b.Ports()
	ports.Secrets = &secret.Vault{Keys: func() ([][]byte, error) { return [][]byte{[]byte(strings.Repeat("k", 32))}, nil }}
	s.b = broker.New(config.Default(), ports)
	return s
}

// version submits the service with secrets: as a new job, or as an update of it.
func (s *secretBench) version(secrets dag.SecretValues) {
	s.t.Helper()
	spec, err := read.Job("j.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: j\n"+
		"tasks: {web: {run: x, service: {port: 80}, resources: {cpus: 4}}}\n"))
	if err != nil {
		s.t.Fatal(err)
	}
	job, err := s.b.Users.Submit(s.t.Context(), broker.Submission{Spec: spec, Secrets: secrets, Updates: s.job})
	if err != nil {
		s.t.Fatal(err)
	}
	s.job = job.ID
	s.now = s.now.Add(time.Minute)
	s.deliverAll()
}

// arrives makes the machine of an attempt say hello, and checks the secrets it gets.
func (s *secretBench) arrives(attempt int, want dag.SecretValues) wire.Claims {
	s.t.Helper()
	c := wire.Claims{Job: s.job, Cluster: record.ClusterID(s.job, 0, attempt)}
	w := hello(s.t, s.b, c)
	told(s.t, c.Cluster, w, wire.Run, 1)
	if w.Assignment != nil && (w.Assignment.Refused != "" || !maps.Equal(w.Assignment.Secrets, map[string]string(want))) {
		s.t.Errorf("%s got %v %s, want %v", c.Cluster, w.Assignment.Secrets, w.Assignment.Refused, want)
	}
	return c
}

func (s *secretBench) reports(c wire.Claims, all ...wire.Event) {
	s.t.Helper()
	for _, event := range all {
		if err := s.b.Agents.Report(s.t.Context(), c, wire.Report{ID: string(event), Event: event, Port: 80, ExitCode: 1}); err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(time.Minute)
		s.deliverAll()
	}
}

// kept returns the keys of the job's sealed secrets.
func (s *secretBench) kept() (out []store.Record) {
	s.t.Helper()
	out, _, err := s.store.Query(s.t.Context(), record.JobPart(s.job), "secrets", store.Page{})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// TestStoppedUpdateRestoresSecrets: an update does not delete what replicas of the previous version need.
func TestStoppedUpdateRestoresSecrets(t *testing.T) {
	for name, next := range map[string]dag.SecretValues{
		"another secret": {"B": "two"}, "another value": {"A": "wrong"}, "none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			first := dag.SecretValues{"A": "one"}
			s := newSecretBench(t)
			s.version(first)
			s.reports(s.arrives(1, first), wire.Started, wire.Ready)
			s.version(next)
			s.reports(s.arrives(2, next), wire.Started, wire.Failed)
			s.reports(s.arrives(3, first), wire.Started, wire.Ready)
			s.version(next) // which is not a previous version
			s.arrives(4, next)
		})
	}
}

// TestSecretsAreDeletedWithJob: all are deleted, though the last version has none.
func TestSecretsAreDeletedWithJob(t *testing.T) {
	s := newSecretBench(t)
	secrets := dag.SecretValues{"A": "one"}
	s.version(secrets)
	attempt := 1
	for ; attempt <= 12; attempt++ {
		s.reports(s.arrives(attempt, secrets), wire.Started, wire.Ready)
		s.version(secrets)
	}
	if got := len(s.kept()); got != 10 { // of all versions that the job refers to, and of the first
		t.Errorf("after many updates %d are kept", got)
	}
	s.reports(s.arrives(attempt, secrets), wire.Started, wire.Ready)
	s.version(nil)
	s.arrives(attempt+1, nil)
	if err := s.b.Users.Cancel(t.Context(), s.job, "enough"); err != nil {
		t.Fatal(err)
	}
	s.deliverAll()
	if d, err := s.b.Views.JobDetail(t.Context(), s.job); err != nil || d.State != apitypes.JobCancelled {
		t.Fatalf("%v, it is %s", err, d.State)
	}
	if got := s.kept(); len(got) > 0 {
		t.Errorf("%d remain, the first is %s", len(got), got[0].Key)
	}
}

// TestSecretsOfUpdateByOlderBroker: they are stored under the key of the first version.
func TestSecretsOfUpdateByOlderBroker(t *testing.T) {
	s := newSecretBench(t)
	secrets := dag.SecretValues{"A": "one"}
	s.version(secrets)
	s.reports(s.arrives(1, secrets), wire.Started, wire.Ready)
	s.version(secrets)
	all := s.kept()
	last := all[len(all)-1]
	err := s.store.Commit(t.Context(), store.Tx{Writes: []store.Write{
		{Op: store.Put, Key: record.SecretsKey(s.job, 1), Expect: store.Any, Body: last.Body},
		{Op: store.Delete, Key: last.Key, Expect: store.Any},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.arrives(2, secrets)
}
