package spread

import (
	"context"
	"io"
	"log"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/stage"
)

// headerSHA256 is the digest of what a node gives, as it read it from the store.
const headerSHA256 = "Tradewind-Sha256"

func (e *Exchange) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{id}", e.give)
	mux.HandleFunc("POST /done/{rank}", func(w http.ResponseWriter, r *http.Request) {
		if rank, err := strconv.Atoi(r.PathValue("rank")); err == nil {
			e.end(rank)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// give sends what is here, and waits a while for what is not yet.
func (e *Exchange) give(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), e.cfg.Late)
	defer cancel()
	h, ok := e.await(ctx, r.PathValue("id"))
	if !ok {
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	body, err := h.Open()
	if err != nil { // its task has removed it since
		http.Error(w, "gone", http.StatusNotFound)
		return
	}
	defer body.Close() //nolint:errcheck // only read
	w.Header().Set("Content-Length", strconv.FormatInt(h.Size, 10))
	w.Header().Set(headerSHA256, h.SHA256)
	w.Header().Set("ETag", h.ETag)
	_, _ = io.Copy(w, body) // who asked sees what is missing
}

// await waits until something is here; not when this node has ended, and will not have it any more.
func (e *Exchange) await(ctx context.Context, id string) (stage.Held, bool) {
	e.mu.Lock()
	h, ok := e.have[id]
	if ok || e.peers[e.cfg.Rank].ended {
		e.mu.Unlock()
		return h, ok
	}
	there := e.wait[id]
	if there == nil {
		there = make(chan struct{})
		e.wait[id] = there
	}
	e.mu.Unlock()
	select {
	case <-there:
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h, ok = e.have[id]
	return h, ok
}

// end notes that a node has all, and ends the exchange when all have.
func (e *Exchange) end(rank int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rank < 0 || rank >= len(e.peers) || e.peers[rank].ended {
		return
	}
	e.peers[rank].ended = true
	if rank == e.cfg.Rank { // what is not here by now never will be
		for id, there := range e.wait {
			close(there)
			delete(e.wait, id)
		}
	}
	if e.ended++; e.ended == len(e.peers) {
		close(e.over)
	}
}

// Leave says that this node has all that it wants. It returns when the others have, too, or have had time for it, or
// ctx has ended; then nothing listens any more.
func (e *Exchange) Leave(ctx context.Context) {
	e.end(e.cfg.Rank)
	var told sync.WaitGroup
	for rank := range e.peers {
		if rank == e.cfg.Rank || !e.hopes(rank) {
			continue
		}
		told.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, doneWithin)
			defer cancel()
			resp, err := e.callOnce(ctx, http.MethodPost, rank, "/done/"+strconv.Itoa(e.cfg.Rank))
			if err == nil {
				_ = resp.Body.Close() // it has none
			}
		})
	}
	told.Wait()
	patience := time.NewTimer(linger)
	defer patience.Stop()
	select {
	case <-e.over:
	case <-patience.C:
	case <-ctx.Done():
	}
	e.client.CloseIdleConnections()
	_ = e.server.Close() // whoever still reads has the store
}

// quiet is a log for what strangers do.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
