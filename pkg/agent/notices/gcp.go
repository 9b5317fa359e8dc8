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

// gcpLead is how long a machine has from the moment that preempted turns true.
const gcpLead = 30 * time.Second

const gcpPreempted = "/computeMetadata/v1/instance/preempted"

// gcp asks Google's metadata server, which answers when the value is no longer the one that was seen last.
type gcp struct {
	service
	poller
	etag string // of the value seen last
}

func (w *gcp) Watch(ctx context.Context, tell func(Notice)) { w.run(ctx, tell, w.poll) }

func (w *gcp) poll(ctx context.Context) ([]Notice, error) {
	q := url.Values{"wait_for_change": {"true"}, "timeout_sec": {"60"}}
	if w.etag == "" { // the value as it is now: it may have turned before anybody looked
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
		return nil, errors.New("preempted: the answer is not of Google's metadata server")
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
