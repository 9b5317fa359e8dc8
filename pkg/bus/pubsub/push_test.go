package pubsub

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/events"
)

const entry = `{
	"insertId": "-x0boqfe25xye", "logName": "projects/acme/logs/cloudaudit.googleapis.com%2Fsystem_event",
	"operation": {"first": true, "id": "systemevent-1", "last": true, "producer": "compute.instances.preempted"},
	"protoPayload": {
		"@type": "type.googleapis.com/google.cloud.audit.AuditLog", "methodName": "compute.instances.preempted",
		"resourceName": "projects/acme/zones/us-central1-a/instances/train-4k7q2a-1-1-0", "serviceName": "compute.googleapis.com",
		"status": {"message": "Instance was preempted."}
	},
	"resource": {"labels": {"instance_id": "5931", "project_id": "acme", "zone": "us-central1-a"}, "type": "gce_instance"},
	"severity": "INFO", "timestamp": "2026-11-21T09:02:00.123Z", "receiveTimestamp": "2026-11-21T09:02:01Z"}`

func pushed(t testing.TB, data string) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"subscription": "projects/acme/subscriptions/tradewind-preemptions",
		"message": map[string]any{
			"data": []byte(data), "messageId": "136969346945", "publishTime": "2026-11-21T09:02:02Z",
			"attributes": map[string]string{"logging.googleapis.com/timestamp": "2026-11-21T09:02:00.123Z"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestAPreemptionIsTheInterruptionThatEveryCloudHas(t *testing.T) {
	p, err := DecodePush(pushed(t, entry))
	if err != nil || p.MessageID != "136969346945" || p.Subscription == "" || p.Published.IsZero() {
		t.Fatalf("%+v, %v", p, err)
	}
	got, err := DecodePreemption(p.Data)
	at := time.Date(2026, 11, 21, 9, 2, 0, 123e6, time.UTC)
	want := Preemption{ID: "-x0boqfe25xye", Project: "acme", Zone: "us-central1-a", Instance: "train-4k7q2a-1-1-0", Number: "5931", At: at}
	if err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	e := got.Event("train-4k7q2a.1.1", "train-4k7q2a")
	body, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	back, err := events.Parse(body)
	if err != nil || back.Type() != events.TypeSpotInterrupted || back.ID != "gcp/acme/-x0boqfe25xye" {
		t.Fatalf("%+v, %v", back, err)
	}
	if d := back.Data.(events.SpotInterrupted); d.Cluster != "train-4k7q2a.1.1" || d.Kind != "taken" || !d.At.Equal(at) || d.Machine != want.Instance {
		t.Errorf("%+v", d)
	}
}

func TestWhatIsNoPreemptionIsTold(t *testing.T) {
	for _, body := range []string{"", "null", "[]", "{}", `{"message":{"data":"%","messageId":"1"}}`, `{"message":{"data":"e30="}}`} {
		if p, err := DecodePush([]byte(body)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", body, p, err)
		}
	}
	for old, c := range map[string]struct {
		with string
		want error
	}{
		`"methodName": "compute.instances.preempted"`: {`"methodName": "v1.compute.instances.delete"`, ErrForeign},
		`compute.googleapis.com"`:                     {`storage.googleapis.com"`, ErrForeign},
		"projects/acme/zones/us-central1-a":           {"projects/acme/regions/us-central1", ErrMalformed},
		"/instances/train-4k7q2a-1-1-0":               {"/instances/", ErrMalformed},
		`"-x0boqfe25xye"`:                             {`""`, ErrMalformed},
		`"timestamp": "2026-11-21T09:02:00.123Z"`:     {`"timestamp": "today"`, ErrMalformed},
		`{`: {``, ErrMalformed},
	} {
		if p, err := DecodePreemption([]byte(strings.Replace(entry, old, c.with, 1))); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", c.with, p, err)
		}
	}
}

func FuzzDecodePush(f *testing.F) {
	f.Add(pushed(f, entry))
	f.Add([]byte(entry))
	f.Fuzz(func(t *testing.T, body []byte) {
		data := body
		p, err := DecodePush(body)
		switch {
		case err == nil && p.MessageID == "":
			t.Errorf("%+v", p)
		case err == nil:
			data = p.Data
		case !errors.Is(err, ErrMalformed):
			t.Error(err)
		}
		n, err := DecodePreemption(data)
		switch {
		case err == nil && (n.ID == "" || n.Instance == "" || n.At.IsZero()):
			t.Errorf("%+v", n)
		case err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrForeign):
			t.Error(err)
		}
	})
}

func TestACallHasOneOrderingKeyAndKeepsTheOrderOfEach(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all []*pubsubpb.PubsubMessage
		want := make(map[string][]*pubsubpb.PubsubMessage)
		for range rapid.IntRange(0, 30).Draw(rt, "n") {
			m := &pubsubpb.PubsubMessage{
				OrderingKey: rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "key"),
				Data:        make([]byte, rapid.SampledFrom([]int{0, 1, maxCall / 3, maxCall}).Draw(rt, "bytes")),
			}
			all = append(all, m)
			want[m.OrderingKey] = append(want[m.OrderingKey], m)
		}
		count := 0
		for _, call := range batches(all) {
			bytes := 0
			for _, m := range call {
				if m.OrderingKey != call[0].OrderingKey || m != want[m.OrderingKey][0] {
					rt.Fatal("a call mixes keys, or is out of order")
				}
				want[m.OrderingKey] = want[m.OrderingKey][1:]
				bytes += len(m.Data)
				count++
			}
			if len(call) == 0 || len(call) > 1 && bytes > maxCall {
				rt.Fatalf("a call of %d messages with %d bytes", len(call), bytes)
			}
		}
		if count != len(all) {
			rt.Fatalf("%d of %d messages", count, len(all))
		}
	})
}
