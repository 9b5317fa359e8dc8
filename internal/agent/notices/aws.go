package notices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// aws polls the instance metadata service, version 2.
type aws struct {
	service
	poller
	token string // session token
}

const (
	awsToken     = "/latest/api/token" //nolint:gosec // where to ask for one
	awsAction    = "/latest/meta-data/spot/instance-action"
	awsRebalance = "/latest/meta-data/events/recommendations/rebalance"
)

func (w *aws) Watch(ctx context.Context, tell func(Notice)) { w.run(ctx, tell, w.poll) }

// poll requests both documents. 404 means that there is no notice.
func (w *aws) poll(ctx context.Context) (found []Notice, err error) {
	for _, q := range []struct {
		path   string
		decode func([]byte) (Notice, error)
	}{{awsAction, decodeAction}, {awsRebalance, decodeRebalance}} {
		body, perr := w.get(ctx, q.path)
		if errors.Is(perr, statusError(http.StatusNotFound)) {
			continue
		}
		n, derr := Notice{}, perr
		if perr == nil {
			n, derr = q.decode([]byte(body))
		}
		if derr != nil {
			err = errors.Join(err, derr)
			continue
		}
		found = append(found, n)
	}
	return found, err
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
