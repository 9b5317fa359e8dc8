package agenttest

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// dataPath is the path at which granted data are served.
const dataPath = "/data/"

// openData serves the temporary folders of the test.
func (b *Broker) openData() {
	b.t.Helper()
	root := filepath.Dir(b.t.TempDir())
	var err error
	if b.data, err = filegrant.New(root, filegrant.Options{BaseURL: b.URL() + dataPath}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = b.data.Close() })
}

// serveData answers like a broker whose attempt has access to everything.
func (b *Broker) serveData(w http.ResponseWriter, r *http.Request) {
	answer, err := b.handleData(r)
	if err == nil {
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	code := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, grant.ErrNoBucket):
		code = http.StatusNotFound
	case errors.Is(err, grant.ErrUpload):
		code = http.StatusConflict
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"detail": err.Error()})
}

func (b *Broker) handleData(r *http.Request) (answer any, err error) {
	body := json.NewDecoder(r.Body)
	switch r.URL.Path {
	case wire.PathGrants:
		var q wire.Wants
		if err := body.Decode(&q); err != nil {
			return nil, err
		}
		for i := range q.Wants {
			q.Wants[i].For = time.Hour
		}
		grants, err := b.stores().Sign(r.Context(), q.Wants...)
		return wire.Granted{Grants: grants}, err
	case wire.PathList:
		var q wire.Listing
		if err := body.Decode(&q); err != nil {
			return nil, err
		}
		return b.stores().List(r.Context(), q.Prefix, q.After)
	case wire.PathMounts:
		var q wire.Mounting
		if err := body.Decode(&q); err != nil {
			return nil, err
		}
		return b.lend(r, q)
	case wire.PathPrune:
		return struct{}{}, nil // it keeps every checkpoint; the broker's tests cover the removal
	}
	var up wire.Upload
	if err := body.Decode(&up); err != nil {
		return nil, err
	}
	switch up.Step {
	case wire.UploadBegin:
		up.Upload, err = b.stores().Begin(r.Context(), up.URI)
	case wire.UploadComplete:
		err = b.stores().Complete(r.Context(), up.URI, up.Upload, up.Parts)
	case wire.UploadAbort:
		err = b.stores().Abort(r.Context(), up.URI, up.Upload)
	}
	return wire.UploadID{Upload: up.Upload}, err
}

func (b *Broker) lend(r *http.Request, q wire.Mounting) (wire.Mounted, error) {
	out := wire.Mounted{Credentials: make([]grant.Credentials, len(q.Loans))}
	for i, l := range q.Loans {
		var err error
		out.Credentials[i], err = b.stores().Lend(r.Context(),
			grant.Loan{Prefix: l.Prefix, Write: l.Write, For: time.Hour})
		if errors.Is(err, grant.ErrStore) {
			err = errors.ErrUnsupported
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
