package gcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
)

// Methods of audit log entries about machines that end without a request (Compute Engine documentation, "Spot VMs",
// "Host events"). The entries are in the log cloudaudit.googleapis.com/system_event.
const (
	Preempted = "compute.instances.preempted"
	HostError = "compute.instances.hostError"
	// Maintained is the method for a machine that cannot be moved and is stopped because its host is maintained.
	Maintained = "compute.instances.terminateOnHostMaintenance"
)

// NoticeFilter selects the entries that a log sink passes to the topic of the notices.
const NoticeFilter = `logName:"cloudaudit.googleapis.com%2Fsystem_event" AND ` +
	`protoPayload.methodName=("` + Preempted + `" OR "` + HostError + `" OR "` + Maintained + `")`

// ErrNotice means that a message is not an entry about a machine.
var ErrNotice = errors.New("gcp: not a notice about a machine")

// warnedAhead is the time for which a machine runs after its preemption begins ("Spot VMs").
const warnedAhead = 30 * time.Second

// Notice is an audit log entry about a machine whose owner is not yet known.
type Notice struct {
	EventID string // the same in every delivery of the entry
	Project string
	Zone    string
	Name    string // the machine's name
	Machine string // the machine's number
	Kind    cloud.NoticeKind
	At      time.Time // when the machine will be, or was, taken
}

// entry is an entry of the log (Cloud Logging API, "LogEntry"; "AuditLog").
type entry struct {
	InsertID  string    `json:"insertId"`
	Timestamp time.Time `json:"timestamp"`
	Payload   struct {
		Method   string `json:"methodName"`
		Resource string `json:"resourceName"`
	} `json:"protoPayload"`
	Resource struct {
		Type   string `json:"type"`
		Labels struct {
			Instance string `json:"instance_id"`
		} `json:"labels"`
	} `json:"resource"`
}

var (
	validResource = lazyregexp.New(
		`^projects/([a-z0-9.:-]{1,100})/zones/([a-z0-9-]{1,63})/instances/([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$`)
	validNumber = lazyregexp.New(`^[0-9]{1,20}$`)
)

// DecodeNotice reads a log entry, the data of a Pub/Sub message. relevant is false if the entry is not about the loss
// of a machine. It fails with ErrNotice if the message is not an entry about a machine, or is incomplete.
func DecodeNotice(payload []byte) (n Notice, relevant bool, err error) {
	var e entry
	if err := json.Unmarshal(payload, &e); err != nil {
		return n, false, fmt.Errorf("%w: %w", ErrNotice, err)
	}
	where := validResource.FindStringSubmatch(e.Payload.Resource)
	number := e.Resource.Labels.Instance
	if where == nil || !validNumber.MatchString(number) || e.InsertID == "" || e.Timestamp.IsZero() ||
		e.Resource.Type != "gce_instance" {
		return n, false, fmt.Errorf("%w: %.60q about %.100q", ErrNotice, e.Payload.Method, e.Payload.Resource)
	}
	n = Notice{EventID: e.InsertID, Project: where[1], Zone: where[2], Name: where[3], Machine: number,
		At: e.Timestamp.UTC()}
	switch e.Payload.Method {
	case Preempted:
		n.Kind, n.At = cloud.Interruption, n.At.Add(warnedAhead)
	case HostError, Maintained:
		n.Kind = cloud.Taken
	default:
		return n, false, nil
	}
	return n, true, nil
}

// Whose finds the cluster of a notice. ours is false if the machine belongs to another deployment, or no longer
// exists. In the latter case reconcile finds that it ended.
func (c *Cloud) Whose(ctx context.Context, n Notice) (about cloud.Notice, ours bool, err error) {
	if n.Project != c.cfg.Project || !strings.HasPrefix(n.Name, "tw-") {
		return about, false, nil
	}
	s, err := c.Compute(ctx)
	if err != nil {
		return about, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	i, err := s.Instances.Get(c.cfg.Project, n.Zone, n.Name).Fields(oneInstance, "labels").Context(ctx).Do()
	if notFound(err) {
		return about, false, nil
	}
	if err != nil {
		return about, false, Typed(err)
	}
	cluster := parseDescription(i.Description).Cluster
	if i.Labels[labelDeployment] != c.deploymentLabel() || cluster == "" || fmt.Sprint(i.Id) != n.Machine {
		return about, false, nil
	}
	return cloud.Notice{Cluster: cluster, Machine: n.Machine, Kind: n.Kind, At: n.At}, true, nil
}
