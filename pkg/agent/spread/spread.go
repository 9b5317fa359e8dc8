// Package spread passes files on between the nodes of one attempt while they stage what they start from, so that the
// store is read about once and not once a node (stage.Peers).
//
// A node listens at its own address, only while staging lasts, and only for the nodes of its attempt: all of them were
// given a key by the broker, from which each makes the same Ed25519 identity; either side of a TLS connection has to
// prove it. Nobody tells which port a node listens at: the key says it.
//
// Nodes need not be able to reach each other. One that cannot be reached, or is late, is not asked again, and what it
// would have given is read from the store.
//
// It knows neither tasks nor stores: what is passed on is named by a digest and checked by who asked for it.
package spread

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/peer"
	"github.com/tradewind-broker/tradewind/pkg/agent/stage"
)

// Config says who a node is.
type Config struct {
	Nodes []string // addresses by rank, without a port
	Rank  int
	Key   []byte // that the broker made for the attempt
	// Late is how long a node is waited for, until what it has is read from the store; 0 is ten seconds.
	Late time.Duration
	// Still is how long nothing may come of what a node gives; 0 is a minute.
	Still time.Duration
}

const (
	late        = 10 * time.Second
	dialWithin  = 2 * time.Second
	beginWithin = 5 * time.Second // nodes begin together, but not at the same moment
	doneWithin  = 2 * time.Second
	linger      = time.Minute // after this node has all, for those that have not
	portTries   = 4           // another program may have the port
	firstPort   = 20_000
	ports       = 12_000 // below those that systems give to whoever dials out
)

// Exchange is a node's part in it. It is a stage.Peers.
type Exchange struct {
	cfg    Config
	client *http.Client
	server *http.Server
	began  time.Time

	mu    sync.Mutex
	have  map[string]stage.Held
	wait  map[string]chan struct{} // closed when it is there
	peers []other
	lost  int  // nodes that cannot be reached
	met   bool // one could
	ended int  // nodes that have all, this one with them
	over  chan struct{}

	address string
}

// other is what is known of another node.
type other struct {
	port  int
	lost  bool
	ended bool
}

// Join begins to listen. It fails where the node's own address is none of this machine's, or no port is free.
func Join(ctx context.Context, cfg Config) (*Exchange, error) {
	if len(cfg.Nodes) < 2 || cfg.Rank < 0 || cfg.Rank >= len(cfg.Nodes) || len(cfg.Key) < 16 {
		return nil, fmt.Errorf("spread: node %d of %d with a key of %d bytes", cfg.Rank, len(cfg.Nodes), len(cfg.Key))
	}
	if cfg.Late <= 0 {
		cfg.Late = late
	}
	id, err := peer.New(cfg.Key, "nodes of one attempt")
	if err != nil {
		return nil, err
	}
	e := &Exchange{
		cfg: cfg, have: map[string]stage.Held{}, wait: map[string]chan struct{}{}, began: time.Now(),
		peers: make([]other, len(cfg.Nodes)), over: make(chan struct{}),
	}
	var l net.Listener
	for try := range portTries {
		address := net.JoinHostPort(cfg.Nodes[cfg.Rank], strconv.Itoa(e.port(cfg.Rank, try)))
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("spread: %w", err)
	}
	e.server = &http.Server{Handler: e.routes(), ReadHeaderTimeout: dialWithin, ErrorLog: quiet()}
	e.address = l.Addr().String()
	go func() { _ = e.server.Serve(tls.NewListener(l, id.Server())) }() // until it is closed
	e.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: id.Client(), TLSHandshakeTimeout: dialWithin, MaxIdleConnsPerHost: portTries,
		DialContext: (&net.Dialer{Timeout: dialWithin}).DialContext, DisableCompression: true,
		ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
	}}
	return e, nil
}

// Address is where this node listens.
func (e *Exchange) Address() string { return e.address }

// port is where a node listens, at one of its tries.
func (e *Exchange) port(rank, try int) int {
	sum := sha256.Sum256(fmt.Appendf(nil, "port %d %d %x", rank, try, e.cfg.Key))
	return firstPort + int(binary.BigEndian.Uint32(sum[:])%ports)
}

// Nodes implements stage.Peers.
func (e *Exchange) Nodes() (rank, n int) { return e.cfg.Rank, len(e.cfg.Nodes) }

// Have implements stage.Peers.
func (e *Exchange) Have(id string, h stage.Held) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.have[id] = h
	if waiting := e.wait[id]; waiting != nil {
		close(waiting)
		delete(e.wait, id)
	}
}

// errAbsent says that a node does not give what it was asked for.
var errAbsent = errors.New("spread: the node does not answer")

// Get implements stage.Peers.
func (e *Exchange) Get(ctx context.Context, rank int, id string) (stage.Given, error) {
	if rank < 0 || rank >= len(e.peers) || rank == e.cfg.Rank || !e.hopes(rank) {
		return stage.Given{}, errAbsent
	}
	request, watch := stage.NewWatch(ctx, e.cfg.Still)
	resp, err := e.call(request, http.MethodGet, rank, "/"+id)
	if err != nil {
		err = watch.Err(err)
		watch.Stop()
		if ctx.Err() == nil {
			e.lose(rank)
		}
		return stage.Given{}, err
	}
	body := &giving{ReadCloser: watch.Body(resp.Body), stalled: func() { e.lose(rank) }}
	if resp.StatusCode != http.StatusOK {
		_ = body.Close() // nothing is in it
		e.lose(rank)
		return stage.Given{}, fmt.Errorf("%w: %s", errAbsent, resp.Status)
	}
	return stage.Given{Body: body, Held: stage.Held{
		Size: resp.ContentLength, SHA256: resp.Header.Get(headerSHA256), ETag: resp.Header.Get("ETag"),
	}}, nil
}

// giving is what a node gives.
type giving struct {
	io.ReadCloser
	stalled func()
}

// Read implements io.Reader.
func (g *giving) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	if errors.Is(err, stage.ErrStalled) {
		g.stalled()
	}
	return n, err
}

// hopes says whether a node is worth asking: where two cannot be reached and none could, there is no way between them.
func (e *Exchange) hopes(rank int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.peers[rank].lost && (e.met || e.lost < 2)
}

func (e *Exchange) lose(rank int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.peers[rank].lost {
		e.peers[rank].lost = true
		e.lost++
	}
}

// call sends a request to a node, at the port at which it answers. One that has not begun is given some time.
func (e *Exchange) call(ctx context.Context, method string, rank int, path string) (*http.Response, error) {
	for pause := time.NewTicker(beginWithin / 20); ; {
		resp, err := e.callOnce(ctx, method, rank, path)
		if err == nil || ctx.Err() != nil || time.Since(e.began) > beginWithin || timedOut(err) {
			pause.Stop()
			return resp, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// timedOut says that nobody even refused: something on the way lets nothing through.
func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func (e *Exchange) callOnce(ctx context.Context, method string, rank int, path string) (
	resp *http.Response, err error,
) {
	e.mu.Lock()
	known := e.peers[rank].port
	e.mu.Unlock()
	for try := range portTries {
		port := known
		if port == 0 {
			port = e.port(rank, try)
		}
		url := "https://" + net.JoinHostPort(e.cfg.Nodes[rank], strconv.Itoa(port)) + path
		var req *http.Request
		if req, err = http.NewRequestWithContext(ctx, method, url, nil); err != nil {
			return nil, err
		}
		if resp, err = e.client.Do(req); err == nil {
			e.mu.Lock()
			e.peers[rank].port, e.met = port, true
			e.mu.Unlock()
			return resp, nil
		}
		if known != 0 || timedOut(err) || ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("%w: node %d: %w", errAbsent, rank, err)
}
