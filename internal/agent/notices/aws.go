package notices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// aws polls the instance metadata service, version 2.
type aws struct {
	service
	poller
	token string // session token
	polls int
}

const (
	awsToken     = "/latest/api/token" //nolint:gosec // where to ask for one
	awsAction    = "/latest/meta-data/spot/instance-action"
	awsRebalance = "/latest/meta-data/events/recommendations/rebalance"
	awsScheduled = "/latest/meta-data/events/maintenance/scheduled"
	// awsHorizon is the time before a scheduled event at which the event is reported. AWS announces it days ahead,
	// and the machine works until then.
	awsHorizon = 15 * time.Minute
	// awsScheduledEvery is the number of polls for each request of the scheduled events.
	awsScheduledEvery = 12
)

// awsEnds are the codes of scheduled events that end the processes of a machine (EC2 API, EventCode). Others,
// system-maintenance, disturb its network or power for a moment.
var awsEnds = []string{"instance-stop", "instance-retirement", "instance-reboot", "system-reboot"}

func (w *aws) Watch(ctx context.Context, tell func(Notice)) { w.run(ctx, tell, w.poll) }

// poll requests the documents. 404 means that there is no notice.
func (w *aws) poll(ctx context.Context) (found []Notice, err error) {
	type document struct {
		path   string
		decode func([]byte) ([]Notice, error)
	}
	documents := []document{{awsAction, one(decodeAction)}, {awsRebalance, one(decodeRebalance)}}
	if w.polls%awsScheduledEvery == 0 {
		documents = append(documents, document{awsScheduled, w.scheduled})
	}
	w.polls++
	for _, q := range documents {
		body, perr := w.get(ctx, q.path)
		if errors.Is(perr, statusError(http.StatusNotFound)) {
			continue
		}
		if perr != nil {
			err = errors.Join(err, perr)
			continue
		}
		notices, derr := q.decode([]byte(body))
		found, err = append(found, notices...), errors.Join(err, derr)
	}
	return found, err
}

// one makes a decoder of one notice return a list.
func one(decode func([]byte) (Notice, error)) func([]byte) ([]Notice, error) {
	return func(body []byte) ([]Notice, error) {
		n, err := decode(body)
		if err != nil {
			return nil, err
		}
		return []Notice{n}, nil
	}
}

func (w *aws) scheduled(body []byte) ([]Notice, error) { return MaintenanceEvents(body, w.clock.Now()) }

// MaintenanceEvents reads the scheduled events of a machine of AWS and returns a notice for each that is active, ends
// what runs on the machine, and begins within 15 minutes.
//
// Source: EC2 User Guide, "Scheduled events for your instances", "View scheduled events", with the example of the
// document: [{"NotBefore": "21 Jan 2019 09:00:43 GMT", "Code": "system-reboot", "EventId": "instance-event-0d59…",
// "State": "active"}].
func MaintenanceEvents(document []byte, now time.Time) ([]Notice, error) {
	var in []struct {
		NotBefore, Code, EventID, State string
	}
	if err := json.Unmarshal(document, &in); err != nil {
		return nil, fmt.Errorf("scheduled events: %w", err)
	}
	var found []Notice
	for _, e := range in {
		if !slices.Contains(awsEnds, e.Code) || e.State != "active" {
			continue
		}
		at, err := time.Parse("2 Jan 2006 15:04:05 MST", e.NotBefore)
		if err != nil {
			return found, fmt.Errorf("scheduled events: NotBefore: %w", err)
		}
		if at.Sub(now) <= awsHorizon {
			found = append(found, Notice{Kind: Interruption, ID: e.EventID, At: at})
		}
	}
	return found, nil
}

// get requests a document with a session token. It gets a new token if it has none or the token has expired.
func (w *aws) get(ctx context.Context, path string) (string, error) {
	for fresh := false; ; {
		if w.token == "" {
			token, _, err := w.ask(ctx, http.MethodPut, awsToken,
				http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"21600"}})
			if err != nil {
				return "", err
			}
			w.token, fresh = token, true
		}
		body, _, err := w.ask(ctx, http.MethodGet, path, http.Header{"X-Aws-Ec2-Metadata-Token": {w.token}})
		if errors.Is(err, statusError(http.StatusUnauthorized)) {
			if w.token = ""; !fresh {
				continue
			}
		}
		return body, err
	}
}

// decodeAction decodes {"action": "terminate", "time": "2017-09-18T08:22:00Z"}. The actions stop and hibernate count
// as interruptions too: the task loses its machine.
func decodeAction(body []byte) (Notice, error) {
	var in struct {
		Action string    `json:"action"`
		Time   time.Time `json:"time"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Notice{}, fmt.Errorf("instance-action: %w", err)
	}
	if in.Action == "" || in.Time.IsZero() {
		return Notice{}, fmt.Errorf("instance-action: neither action nor time in %.200q", body)
	}
	return Notice{Kind: Interruption, ID: in.Action + "@" + in.Time.Format(time.RFC3339), At: in.Time}, nil
}

// decodeRebalance decodes {"noticeTime": "2020-10-27T08:22:00Z"}.
func decodeRebalance(body []byte) (Notice, error) {
	var in struct {
		Time time.Time `json:"noticeTime"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Notice{}, fmt.Errorf("rebalance: %w", err)
	}
	if in.Time.IsZero() {
		return Notice{}, fmt.Errorf("rebalance: no noticeTime in %.200q", body)
	}
	return Notice{Kind: Rebalance, ID: "rebalance@" + in.Time.Format(time.RFC3339), At: in.Time}, nil
}
