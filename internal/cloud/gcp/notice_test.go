package gcp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// logged returns an audit log entry as a sink delivers it. Unused fields are omitted.
func logged(method, project, name, id string) string {
	return fmt.Sprintf(`{"insertId":"-abc1","logName":"projects/demo/logs/cloudaudit.googleapis.com%%2Fsystem_event",
"protoPayload":{"@type":"type.googleapis.com/google.cloud.audit.AuditLog","methodName":%q,"serviceName":"compute.googleapis.com",
"resourceName":"projects/%s/zones/us-central1-a/instances/%s","request":{"@type":"type.googleapis.com/compute.instances.preempted"},
"authenticationInfo":{"principalEmail":"system@google.com"},"status":{"message":"Instance was preempted."}},
"resource":{"type":"gce_instance","labels":{"instance_id":%q,"project_id":%q,"zone":"us-central1-a"}},
"severity":"INFO","timestamp":"2026-11-22T12:00:00.5Z","receiveTimestamp":"2026-11-22T12:00:01Z"}`, method, project, name, id, project)
}

func TestNoticeFindsCluster(t *testing.T) {
	w := newWorld(t, nil)
	m := w.launch(spec("job-1.train.1", 1, spot))[0]
	name := w.gce.Instance(m.ID).Name
	n, relevant, err := gcp.DecodeNotice([]byte(logged(gcp.Preempted, "demo", name, m.ID)))
	at := time.Date(2026, 11, 22, 12, 0, 30, 500_000_000, time.UTC)
	if err != nil || !relevant || n.Kind != cloud.Interruption || !n.At.Equal(at) || n.EventID != "-abc1" {
		t.Fatalf("%+v %t %v", n, relevant, err)
	}
	e, ours, err := w.gcp.Whose(t.Context(), n)
	if err != nil || !ours || e != (cloud.Notice{Cluster: "job-1.train.1", Machine: m.ID, Kind: cloud.Interruption, At: n.At}) {
		t.Errorf("%+v %t %v", e, ours, err)
	}
	for what, change := range map[string]func(*gcp.Notice){
		"another project's": func(n *gcp.Notice) { n.Project = "other" },
		"another owner's":   func(n *gcp.Notice) { n.Name = "web-1" },
		"an earlier one":    func(n *gcp.Notice) { n.Machine = "7" },
		"a missing machine": func(n *gcp.Notice) { n.Name += "0" },
	} {
		changed := n
		change(&changed)
		if _, ours, err := w.gcp.Whose(t.Context(), changed); ours || err != nil {
			t.Errorf("%s: %t %v", what, ours, err)
		}
	}
	if _, ours, _ := w.another(func(c *gcp.Config) { c.Deployment = "another" }).Whose(t.Context(), n); ours {
		t.Error("another deployment's machine")
	}
}

func TestDecodeNoticeRejectsOtherEntries(t *testing.T) {
	for _, text := range []string{
		"", "{}", "[]", logged(gcp.Preempted, "demo", "tw-a-0", "x"), logged(gcp.Preempted, "demo", "../a", "1"),
		strings.Replace(logged(gcp.Preempted, "demo", "tw-a-0", "1"), "gce_instance", "gcs_bucket", 1),
		strings.Replace(logged(gcp.Preempted, "demo", "tw-a-0", "1"), "2026-11-22T12:00:00.5Z", "yesterday", 1),
	} {
		if n, relevant, err := gcp.DecodeNotice([]byte(text)); !errors.Is(err, gcp.ErrNotice) || relevant {
			t.Errorf("%+v %t %v of %s", n, relevant, err, text)
		}
	}
	if _, relevant, err := gcp.DecodeNotice([]byte(logged("compute.instances.guestTerminate", "demo", "tw-a-0", "1"))); relevant || err != nil {
		t.Errorf("a machine that shut itself down: %t %v", relevant, err)
	}
	// "compute.instances.terminateOnHostMaintenance" is logged for a machine whose host is maintained (Compute Engine
	// documentation, "Host events").
	for _, method := range []string{gcp.HostError, "compute.instances.terminateOnHostMaintenance"} {
		n, relevant, err := gcp.DecodeNotice([]byte(logged(method, "demo", "tw-a-0", "1")))
		if !relevant || err != nil || n.Kind != cloud.Taken {
			t.Errorf("%s: %+v %t %v", method, n, relevant, err)
		}
		if !strings.Contains(gcp.NoticeFilter, method) {
			t.Errorf("the sink does not pass %s on", method)
		}
	}
}

func FuzzDecodeNotice(f *testing.F) {
	f.Add([]byte(logged(gcp.Preempted, "demo", "tw-a-0", "1")))
	f.Add([]byte(logged(gcp.HostError, "example.com:demo", "tw-a-0", "18446744073709551615")))
	f.Fuzz(func(t *testing.T, payload []byte) {
		n, relevant, err := gcp.DecodeNotice(payload)
		if err == nil && (n.EventID == "" || n.Machine == "" || n.Zone == "" || n.At.IsZero()) || err != nil && relevant {
			t.Errorf("%+v %t %v", n, relevant, err)
		}
	})
}
