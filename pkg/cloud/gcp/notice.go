package gcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// The methods of what the audit log says of machines that end without being asked to (Compute Engine documentation,
// "Spot VMs", "Host events"): entries of the log cloudaudit.googleapis.com/system_event.
const (
	Preempted = "compute.instances.preempted"
	HostError = "compute.instances.hostError"
)

// NoticeFilter is what a log sink passes on to the topic that notices come from.
const NoticeFilter = `logName:"cloudaudit.googleapis.com%2Fsystem_event" AND ` +
	`protoPayload.methodName=("` + Preempted + `" OR "` + HostError + `")`

// ErrNotice says that a message is no entry about a machine.
var ErrNotice = errors.New("gcp: not a notice about a machine")

// warnedAhead is how long a machine has from the beginning of its preemption ("Spot VMs").
const warnedAhead = 30 * time.Second

// Notice is what the audit log says of a machine, before it is known whose the machine is.
type Notice struct {
	EventID string // the same for every delivery
	Project string
	Zone    string
	Name    string // of the machine
	Machine string // its number
	Kind    cloud.NoticeKind
	At      time.Time // when the machine will be, or was, taken
}

// entry is a line of the log (Cloud Logging API, "LogEntry"; "AuditLog").
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
	validResource = regexp.MustCompile(
		`^projects/([a-z0-9.:-]{1,100})/zones/([a-z0-9-]{1,63})/instances/([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$`)
	validNumber = regexp.MustCompile(`^[0-9]{1,20}$`)
)

// DecodeNotice reads a log entry, the data of a Pub/Sub message. relevant is false for one that is no loss. It fails
// with ErrNotice on anything that is no entry about a machine, or is not whole.
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
	case HostError:
		n.Kind = cloud.Taken
	default:
		return n, false, nil
	}
	return n, true, nil
}

// Whose looks up which cluster a notice is about. ours is false when the machine is of another deployment, or is gone
// already: then reconcile finds that it is.
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
	if isGone(err) {
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
