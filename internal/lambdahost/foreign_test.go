package lambdahost_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	cloudaws "github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

// machines knows one machine.
type machines struct{ err error }

func (m machines) Notice(_ context.Context, raw []byte) (n events.SpotInterrupted, ours bool, err error) {
	notice, relevant, err := cloudaws.DecodeNotice(raw)
	switch {
	case err != nil:
		return n, false, fmt.Errorf("%w: %w", lambdahost.ErrEnvelope, err)
	case m.err != nil:
		return n, false, m.err
	case !relevant || notice.Machine != "i-1234567890abcdef0":
		return n, false, nil
	}
	return events.SpotInterrupted{
		Cluster: "job-1.0.1", Job: "job-1", Machine: notice.Machine, Kind: string(notice.Kind), At: notice.At,
	}, true, nil
}

func document(t *testing.T, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestDecodesAWSEvents(t *testing.T) {
	nine := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for name, want := range map[string]struct {
		id   string
		data events.Data
	}{
		"s3-object-created": {"aws-17793124-05d4-b198-2fde-7ededc63b103", events.ObjectCreated{
			Bucket: "amzn-s3-demo-bucket1", Key: "jobs/train infer.yaml", ETag: "b1946ac92492d2347c6235b4d2611184", Size: 5,
		}},
		"s3-folder-created": {},
		"s3-remark-created": {},
		"s3-code-created":   {},
		"ec2-interruption": {"aws-12345678-1234-1234-1234-123456789012", events.SpotInterrupted{
			Cluster: "job-1.0.1", Job: "job-1", Machine: "i-1234567890abcdef0", Kind: "interruption", At: nine.Add(2 * time.Minute),
		}},
		"ec2-rebalance": {"aws-22345678-1234-1234-1234-123456789012", events.SpotInterrupted{
			Cluster: "job-1.0.1", Job: "job-1", Machine: "i-1234567890abcdef0", Kind: "rebalance", At: nine,
		}},
		"ec2-terminated": {"aws-7bf73129-1428-4cd3-a780-95db273d1602", events.SpotInterrupted{
			Cluster: "job-1.0.1", Job: "job-1", Machine: "i-1234567890abcdef0", Kind: "taken", At: time.Date(2026, 11, 21, 21, 29, 54, 0, time.UTC),
		}},
		"ec2-pending":        {},
		"ec2-not-ours":       {},
		"schedule-reconcile": {"reconcile-0d1d9c3a5b6e7f80", events.BrokerReconcile{}},
	} {
		e, ok, err := lambdahost.Decoder{Notices: machines{}}.Decode(context.Background(), document(t, name))
		if err != nil || ok != (want.data != nil) {
			t.Errorf("%s: ok %v, error %v", name, ok, err)
			continue
		}
		if ok && (e.ID != want.id || !reflect.DeepEqual(e.Data, want.data)) {
			t.Errorf("%s:\n got %s %+v\nwant %s %+v", name, e.ID, e.Data, want.id, want.data)
		}
	}
}

func TestUnexpectedEventIsFinal(t *testing.T) {
	for name, body := range map[string]string{
		"another event of S3":     string(document(t, "s3-object-deleted")),
		"no envelope":             `{"hello":"world"}`,
		"no JSON":                 `hello`,
		"an object without a key": `{"id":"1","source":"aws.s3","detail-type":"Object Created","detail":{"bucket":{"name":"b"}}}`,
		"a type nobody knows":     `{"specversion":"1.0","id":"1","source":"s","type":"tradewind.odd.v1","data":{}}`,
	} {
		_, ok, err := lambdahost.Decoder{}.Decode(context.Background(), []byte(body))
		if ok || err == nil || !lambdahost.Final(err) {
			t.Errorf("%s: ok %v, error %v", name, ok, err)
		}
	}
}

func TestFailedMachineLookupIsRetried(t *testing.T) {
	away := errors.New("throttled")
	_, _, err := lambdahost.Decoder{Notices: machines{err: away}}.Decode(context.Background(), document(t, "ec2-interruption"))
	if !errors.Is(err, away) || lambdahost.Final(err) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		body, err := os.ReadFile(name) //nolint:gosec // ours
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, ok, err := lambdahost.Decoder{Notices: machines{}}.Decode(context.Background(), body)
		switch {
		case ok && (err != nil || e.ID == "" || e.Data == nil):
			t.Errorf("%q gave %+v, error %v", body, e, err)
		case !ok && err != nil && !lambdahost.Final(err):
			t.Errorf("%q will not get better, but is tried again: %v", body, err)
		}
	})
}
