package notices

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// gcpLead is the time between the moment that preempted becomes true and the machine's end.
const gcpLead = 30 * time.Second

const gcpPreempted = "/computeMetadata/v1/instance/preempted"

// gcp polls Google's metadata server, which holds the request until the value changes.
type gcp struct {
	service
	poller
	etag string // of the last value
}

func (w *gcp) Watch(ctx context.Context, tell func(Notice)) { w.run(ctx, tell, w.poll) }

func (w *gcp) poll(ctx context.Context) ([]Notice, error) {
	q := url.Values{"wait_for_change": {"true"}, "timeout_sec": {"60"}}
	if w.etag == "" { // get the current value without waiting: it may already be TRUE
		q = url.Values{}
	} else {
		q.Set("last_etag", w.etag)
	}
	path := gcpPreempted
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	body, header, err := w.ask(ctx, http.MethodGet, path, http.Header{"Metadata-Flavor": {"Google"}})
	if err != nil {
		w.etag = ""
		return nil, err
	}
	if header.Get("Metadata-Flavor") != "Google" {
		return nil, errors.New("preempted: the answer is not from Google's metadata server")
	}
	w.etag = header.Get("Etag")
	switch strings.TrimSpace(body) {
	case "TRUE":
		return []Notice{{Kind: Interruption, ID: "preempted", At: w.clock.Now().Add(gcpLead)}}, nil
	case "FALSE":
		return nil, nil
	}
	return nil, fmt.Errorf("preempted: %.100q is neither TRUE nor FALSE", body)
}
