package peercache

import (
	"context"
	"io"
	"log"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
)

// headerSHA256 is the header with the digest of the content, as the sending node read it from the store.
const headerSHA256 = "Tradewind-Sha256"

func (e *Exchange) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{id}", e.serveContent)
	mux.HandleFunc("POST /done/{rank}", func(w http.ResponseWriter, r *http.Request) {
		if rank, err := strconv.Atoi(r.PathValue("rank")); err == nil {
			e.end(rank)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// serveContent sends content that this node has. For content that it does not have yet, it waits for some time.
func (e *Exchange) serveContent(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), e.cfg.Late)
	defer cancel()
	h, ok := e.await(ctx, r.PathValue("id"))
	if !ok {
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	body, err := h.Open()
	if err != nil { // the task has removed it since
		http.Error(w, "gone", http.StatusNotFound)
		return
	}
	defer body.Close() //nolint:errcheck // only read
	w.Header().Set("Content-Length", strconv.FormatInt(h.Size, 10))
	w.Header().Set(headerSHA256, h.SHA256)
	w.Header().Set("ETag", h.ETag)
	_, _ = io.Copy(w, body) // the receiver notices missing bytes
}

// await waits until this node has the content. It does not wait if this node has finished staging, because then the
// content will not arrive any more.
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

// end records that a node needs no more content, and closes over when all nodes need no more.
func (e *Exchange) end(rank int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rank < 0 || rank >= len(e.peers) || e.peers[rank].ended {
		return
	}
	e.peers[rank].ended = true
	if rank == e.cfg.Rank { // waiting requests will never succeed now
		for id, there := range e.wait {
			close(there)
			delete(e.wait, id)
		}
	}
	if e.ended++; e.ended == len(e.peers) {
		close(e.over)
	}
}

// Leave reports to the other nodes that this node needs no more content. It returns when all others have reported the
// same, after a maximum time, or when ctx ends. Then this node stops listening.
func (e *Exchange) Leave(ctx context.Context) {
	e.end(e.cfg.Rank)
	var told sync.WaitGroup
	for rank := range e.peers {
		if rank == e.cfg.Rank || !e.worthCalling(rank) {
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
	_ = e.server.Close() // a node that is still reading uses the store instead
}

// quiet returns a logger that drops messages. Otherwise other programs could fill the log with errors by connecting.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
