package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// packs is a depot with some packs. It records which of them were renewed.
type packs struct {
	have   []string
	broken error
	stayed []string
}

func (p *packs) Check(_ context.Context, uris ...string) error {
	for _, uri := range uris {
		if !slices.Contains(p.have, uri) {
			return fmt.Errorf("%s: %w", uri, pack.ErrIncomplete)
		}
	}
	return p.broken
}

func (p *packs) Stay(_ context.Context, uris ...string) error {
	p.stayed = append(p.stayed, uris...)
	return p.broken
}

func packed(what string) string {
	return pack.URI{Digest: pack.DigestOf([]byte(what)), Name: what}.String()
}

func job(t *testing.T, name, workdir, input string) *dag.Job {
	t.Helper()
	spec, err := read.Job("job.yaml", strings.NewReader(fmt.Sprintf(`apiVersion: tradewind/v1
name: %s
tasks:
  a: {run: ls, workdir: %q, inputs: [{uri: %q}]}
`, name, workdir, input)))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestSubmitRejectsUnreachableFiles(t *testing.T) {
	depot := &packs{have: []string{packed("code")}}
	b := broker.New(config.Default(), broker.Ports{Store: mem.New(), Now: time.Now, Packs: depot})
	submit := func(workdir, input string) error {
		_, err := b.Users.Submit(t.Context(), broker.Submission{Spec: job(t, "j", workdir, input)})
		return err
	}
	for _, c := range [][3]string{
		{packed("code"), packed("data"), packed("data") + ": the pack is not complete"},
		{"code", packed("code"), `"code" is a path on the submitter's own computer`},
		{packed("code"), "~/data", `"~/data" is a path on the submitter's own computer`},
	} {
		var bad *dag.Error
		if err := submit(c[0], c[1]); !errors.As(err, &bad) || bad.Line != 4 || bad.Reason != c[2] {
			t.Errorf("%v", err)
		}
	}
	if err := submit(packed("code"), "s3://bucket/data"); err != nil {
		t.Error(err)
	}
	if err := submit("file:///code", "/on/the/machine"); err != nil {
		t.Error(err)
	}
	depot.broken = errors.New("the store is away")
	var bad *dag.Error
	if err := submit(packed("code"), packed("code")); !errors.Is(err, depot.broken) || errors.As(err, &bad) {
		t.Errorf("a temporary failure is reported as the file's fault: %v", err)
	}
}

// TestKeepPacksRenewsPacksOfOldOpenJobs: packs of old jobs that have not finished are renewed. Packs of young jobs
// are not.
func TestKeepPacksRenewsPacksOfOldOpenJobs(t *testing.T) {
	depot := &packs{have: []string{packed("old"), packed("data"), packed("new")}}
	now := time.Now()
	b := broker.New(config.Default(), broker.Ports{Store: mem.New(), Now: func() time.Time { return now }, Packs: depot})
	submit := func(name string) {
		_, err := b.Users.Submit(t.Context(), broker.Submission{Spec: job(t, name, packed(name), packed("data"))})
		if err != nil {
			t.Fatal(err)
		}
	}
	submit("old")
	now = now.Add(8 * 24 * time.Hour)
	submit("new")
	refresh := events.New("r", "test", now, events.CatalogRefresh{})
	if err := errors.Join(b.Functions.Handle(t.Context(), events.FnRefresh, []events.Event{refresh})...); err != nil {
		t.Fatal(err)
	}
	if want := []string{packed("old"), packed("data")}; !slices.Equal(depot.stayed, want) {
		t.Errorf("renewed %q", depot.stayed)
	}
}

// beside is a DAG bucket with one file. Relative paths in the file cannot be resolved.
type beside struct{ body string }

func (o beside) Open(context.Context, events.ObjectCreated) (body io.ReadCloser, tag string, err error) {
	return io.NopCloser(strings.NewReader(o.body)), "", nil
}

func (beside) Settle(_ context.Context, _, _ string, spec *dag.Job) error {
	return spec.ErrorAt(0, dag.FilesOfTask, "workdir", "there is none", "")
}

func TestDAGFileWithMissingPacksIsRejectedWithLine(t *testing.T) {
	store := mem.New()
	b := broker.New(config.Default(), broker.Ports{
		Store: store, Now: time.Now, Objects: beside{"apiVersion: tradewind/v1\nname: x\ntasks: {a: {run: ls}}\n"},
	})
	e := events.New("o", "test", time.Now(), events.ObjectCreated{Bucket: "b", Key: "x.yaml", ETag: "1"})
	if err := errors.Join(b.Functions.Handle(t.Context(), events.FnSubmit, []events.Event{e})...); err != nil {
		t.Fatal(err)
	}
	pending, err := store.Outbox(t.Context(), 10)
	if err != nil || len(pending) != 1 || !strings.Contains(string(pending[0].Body), "x.yaml:3:9: tasks.a.workdir: there is none") {
		t.Errorf("%v %s", err, pending)
	}
}

// written is a DAG bucket with one file, which has the given tag.
type written struct{ body, tag string }

func (o *written) Open(context.Context, events.ObjectCreated) (body io.ReadCloser, tag string, err error) {
	return io.NopCloser(strings.NewReader(o.body)), o.tag, nil
}

func (*written) Settle(context.Context, string, string, *dag.Job) error { return nil }

// TestRewrittenDAGFileIsOneJob: a file is written twice in a row, and the events of both writes read the last
// content. This must submit one job. A later file with new content is another job.
func TestRewrittenDAGFileIsOneJob(t *testing.T) {
	file := &written{"apiVersion: tradewind/v1\nname: x\ntasks: {a: {run: ls}}\n", "second"}
	b := broker.New(config.Default(), broker.Ports{Store: mem.New(), Now: time.Now, Objects: file})
	told := func(tag string) int {
		e := events.New(tag, "test", time.Now(), events.ObjectCreated{Bucket: "b", Key: "x.yaml", ETag: tag})
		if err := errors.Join(b.Functions.Handle(t.Context(), events.FnSubmit, []events.Event{e})...); err != nil {
			t.Fatal(err)
		}
		jobs, _, err := b.Views.Jobs(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs)
	}
	if n := told("first") + told("second"); n != 2 {
		t.Errorf("%d jobs when each event was read, want 1", n)
	}
	if file.tag = "third"; told("third") != 2 {
		t.Error("new content is not another job")
	}
	if file.tag = ""; told("fourth") != 3 {
		t.Error("in a store without tags, a new announcement is not another job")
	}
}
