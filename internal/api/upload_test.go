package api_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// cut is a store whose first response to Complete is lost, as if the broker was killed or the connection broke.
type cut struct {
	grant.Store
	calls int
}

var errCut = errors.New("the connection was cut")

func (s *cut) Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error {
	err := s.Store.Complete(ctx, uri, upload, parts)
	if s.calls++; s.calls == 1 {
		return errCut
	}
	return err
}

// An agent gets no response when it completes an upload, and repeats its request. By then the store has made the
// object and has forgotten the upload. The repeated request must succeed.
func TestRepeatedUploadCompletionSucceeds(t *testing.T) {
	w := apitest.New(t)
	job, _, node := begun(t, w, "one")
	c := newClient(t, w, node)
	uri := w.URI(wire.OutputPrefix(job+"/use", node.Attempt())) + "0/files/large"
	begin := answer[wire.UploadID](t, c.upload(wire.Upload{Step: wire.UploadBegin, URI: uri}), http.StatusOK)
	res := c.do(grant.Want{Op: grant.Part, URI: uri, Upload: begin.Upload, Number: 1}, "all of it")
	parts := []grant.Uploaded{{Number: 1, ETag: res.Header.Get("ETag")}}
	ports := w.Ports
	ports.Data = &cut{Store: w.Data}
	b := broker.New(w.Config, ports)
	claims := wire.Claims{Job: job, Cluster: node.Attempt(), Expires: w.Clock.Now().Add(time.Hour)}
	end := func(parts []grant.Uploaded) error {
		return b.Agents.EndUpload(t.Context(), claims, uri, begin.Upload, parts)
	}
	wrong := []grant.Uploaded{{Number: 1, ETag: "another"}}
	if err := w.Broker.Agents.EndUpload(t.Context(), claims, uri, begin.Upload, wrong); !errors.Is(err, grant.ErrUpload) {
		t.Fatalf("parts that were never sent: %v", err)
	}
	if err := w.Broker.Agents.EndUpload(t.Context(), claims, uri, begin.Upload, wrong); !errors.Is(err, grant.ErrUpload) {
		t.Fatalf("parts that were never sent, again: %v", err)
	}
	if err := end(parts); !errors.Is(err, errCut) {
		t.Fatalf("the answer was to be lost: %v", err)
	}
	if err := end(parts); err != nil {
		t.Errorf("asked again: %v", err)
	}
	if err := end(parts); err != nil {
		t.Errorf("repeated after the record was removed: %v", err)
	}
	raw, err := w.Data.Sign(t.Context(), grant.Want{Op: grant.Get, URI: uri, For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	got, err := http.Get(raw[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close() //nolint:errcheck // only its status matters
	if got.StatusCode != http.StatusOK {
		t.Errorf("the object: %s", got.Status)
	}
}
