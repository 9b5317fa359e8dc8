package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// grantServer answers an agent's requests for grants, with the API's signing code. The API's lookups before
// that (of the attempt's state and its scope) are not measured: they are a few record reads for each batch.
type grantServer struct {
	grant.Store
	server *http.Server
	url    string
}

// grantLasts is the broker's lifetime of a grant.
const grantLasts = 15 * time.Minute

func newGranting(ctx context.Context, store grant.Store) (*grantServer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &grantServer{Store: store, url: "http://" + l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+wire.PathGrants, answer(func(ctx context.Context, q wire.Wants) (any, error) {
		if len(q.Wants) > wire.MaxWants {
			return nil, errors.New("too many wants")
		}
		for i := range q.Wants {
			q.Wants[i].For = grantLasts
		}
		signed, err := g.Sign(ctx, q.Wants...)
		return wire.Granted{Grants: signed}, err
	}))
	mux.HandleFunc("POST "+wire.PathList, answer(func(ctx context.Context, q wire.Listing) (any, error) {
		return g.List(ctx, q.Prefix, q.After)
	}))
	mux.HandleFunc("POST "+wire.PathUploads, answer(func(ctx context.Context, q wire.Upload) (any, error) {
		switch q.Step {
		case wire.UploadBegin:
			name, err := g.Begin(ctx, q.URI)
			return wire.UploadID{Upload: name}, err
		case wire.UploadComplete:
			return wire.UploadID{}, g.Complete(ctx, q.URI, q.Upload, q.Parts)
		case wire.UploadAbort:
			return wire.UploadID{}, g.Abort(ctx, q.URI, q.Upload)
		}
		return nil, errors.New("no such step")
	}))
	g.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = g.server.Serve(l) }() // until Close
	return g, nil
}

// answer decodes a request, calls do and encodes its response, both as JSON.
func answer[Q any](do func(context.Context, Q) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		err := json.NewDecoder(r.Body).Decode(&q)
		var a any
		if err == nil {
			a, err = do(r.Context(), q)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		_ = json.NewEncoder(w).Encode(a) // the client detects a truncated response
	}
}

func (g *grantServer) Close() error { return g.server.Close() }
