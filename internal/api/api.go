package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

// MinTokenBytes is the shortest user token that New accepts.
const MinTokenBytes = 16

// Config is the configuration of the API.
type Config struct {
	// Broker does the work; see PortsOf.
	Broker Ports
	// Token is the user token, at least MinTokenBytes long.
	Token string
	// Verify checks an agent's token: internal/agent/token with the deployment's key and clock.
	Verify func(token string) (wire.Claims, error)
	Logs   Logs
	// Identity checks, by cloud, the proofs of identity that machines send with hello; if nil, no proof is accepted.
	Identity identity.Verifiers
	// Machines makes and checks the tokens of pools' machines; nil answers 501.
	Machines *MachineTokens
	// Program returns where machines fetch the agent; nil answers 404.
	Program ProgramFunc
	// Mounter returns the URL from which a machine without the mount program can fetch it. If Mounter is nil, there
	// is none.
	Mounter MounterFunc
	// Visits lets users connect to machines; nil answers 501.
	Visits *Visits
	// Hub wakes waiting agents; pass its Changed to broker.Ports. If it is nil, New makes one, and agents then learn
	// of commands only when their poll ends.
	Hub *Hub
	// Unheld, if above 0, makes agents' polls return at once. It is the pause of an agent with work before its next
	// poll. It is for hosts that pay for the duration of a request.
	Unheld time.Duration
	// Plan makes plans without submitting; nil answers 501.
	Plan PlanFunc
	// Simulated is true for a broker that buys nothing, because its machines are simulated.
	Simulated bool
	// Frontier returns the trade-off between cost and deadline; nil answers 501.
	Frontier FrontierFunc
	// Offers lists the machines that fit a task; nil answers 501.
	Offers OffersFunc
	// Packs receives the files that jobs upload; nil answers 501.
	Packs Packs
	// Objects serves the paths below ObjectsPath, to any holder of a signed URL: a filegrant.Store. Nil answers 404.
	Objects http.Handler
	// Clouds checks the clouds on which the broker buys; nil answers 501.
	Clouds CloudsFunc
	// Dead returns the dead letters; nil answers 501.
	Dead DeadLetters
	// Dashboard serves / and everything below /assets/; nil answers 404.
	Dashboard http.Handler
	// Metrics serves /metrics to users; nil answers 404.
	Metrics http.Handler
	// Records serves backup.Path to users: the broker's records; nil answers 404.
	Records http.Handler
	// Hosts are the names, without ports, by which the API can be reached in addition to localhost and loopback
	// addresses.
	Hosts []string
	// FullDisk describes the disk on which the broker can no longer write, with a remedy. It is nil for a broker
	// whose records are not on a disk of this computer.
	FullDisk func() (what, hint string)
	// Now is the broker's clock; nil is the machine's.
	Now func() time.Time
	// Version is the program's version, for display.
	Version string
	// Log gets one line per request, never with a token or a query; nil discards the lines.
	Log *slog.Logger
}

// API serves HTTP. Make one with New.
type API struct {
	cfg      Config
	log      *slog.Logger
	mux      *http.ServeMux
	huma     huma.API
	document func() ([]byte, error) // OpenAPI as JSON, made at the first call
	token    atomic.Pointer[signin.Token]
	hosts    map[string]struct{}
	feeds    *Feeds
	heavy    chan struct{}
	closed   context.Context //nolint:containedctx // ends all streams when the host does
	stop     context.CancelFunc
}

// New makes an API. It returns an error if a part of the configuration is missing.
func New(cfg Config) (*API, error) {
	if !cfg.Broker.complete() || cfg.Verify == nil || cfg.Logs == nil {
		return nil, errors.New("api: Broker, Verify and Logs are needed")
	}
	if cfg.Hub == nil {
		cfg.Hub = NewHub()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Machines = cfg.Machines.complete()
	closed, stop := context.WithCancel(context.Background())
	a := &API{
		cfg: cfg, log: cfg.Log, mux: http.NewServeMux(), hosts: knownHosts(cfg.Hosts),
		feeds: newFeeds(closed, cfg.Broker.JobViews, cfg.Log), heavy: make(chan struct{}, maxHeavy),
		closed: closed, stop: stop,
	}
	if err := a.SetToken(cfg.Token); err != nil {
		return nil, err
	}
	a.routes()
	return a, nil
}

func knownHosts(more []string) map[string]struct{} {
	hosts := map[string]struct{}{"localhost": {}, "127.0.0.1": {}, "::1": {}}
	for _, h := range more {
		hosts[strings.ToLower(h)] = struct{}{}
	}
	return hosts
}

// routes registers every path.
func (a *API) routes() {
	a.huma = newHuma(a.mux)
	a.jobRoutes()
	a.planRoute()
	a.learnedRoute()
	a.frontierRoutes()
	a.offersRoute()
	a.tesRoutes()
	a.queueRoutes()
	a.marketRoutes()
	a.suspendRoutes()
	a.poolRoutes()
	a.deadLetterRoutes()
	a.cloudRoutes()
	a.eventRoutes()
	a.logRoutes()
	a.packRoutes()
	a.agentRoutes()
	a.visitRoutes()
	a.dataRoutes()
	a.programRoutes()
	a.plainRoutes()
}

// Document returns the OpenAPI 3.1 description of the API as indented JSON.
func (a *API) Document() ([]byte, error) { return a.document() }

// Server returns an HTTP server for the API with suitable limits: slow or endless headers are cut off, while responses
// may stream for as long as the client reads. The host listens, serves and shuts down.
func (a *API) Server() *http.Server {
	s := &http.Server{
		Handler:           a,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	s.RegisterOnShutdown(a.Close)
	return s
}

// Close ends every stream and long poll, so that a server can shut down. It may be called more than once.
func (a *API) Close() { a.stop() }

// health is the response of /healthz.
type health struct {
	Status  string `json:"status"`
	Version string `json:"version,omitempty"`
}

// plainRoutes registers paths that the API's document does not describe. Paths without a token reveal nothing about
// jobs.
func (a *API) plainRoutes() {
	a.document = sync.OnceValues(func() ([]byte, error) { return render(a.huma.OpenAPI()) })
	a.static("GET /healthz", "application/json", func() ([]byte, error) {
		return json.Marshal(health{Status: "ok", Version: a.cfg.Version})
	})
	a.static("GET /openapi.json", "application/openapi+json", a.document)
	a.static("GET /openapi.yaml", "application/openapi+yaml", sync.OnceValues(a.huma.OpenAPI().YAML))
	a.plainForUsers("GET /metrics", a.cfg.Metrics)
	a.plainForUsers("GET /v1/backup", a.cfg.Records)
	if a.cfg.Dashboard != nil {
		a.mux.Handle("GET /{$}", a.cfg.Dashboard)
		a.mux.Handle("GET /assets/", a.cfg.Dashboard)
	}
}

// plainForUsers registers a handler, if there is one, for users.
func (a *API) plainForUsers(pattern string, h http.Handler) {
	if h == nil {
		return
	}
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if a.admit(w, r, signin.Bearer(r)) {
			h.ServeHTTP(w, r)
		}
	})
}

// static serves a document that is the same for every user.
func (a *API) static(pattern, contentType string, make func() ([]byte, error)) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		body, err := make()
		if err != nil {
			a.log.ErrorContext(r.Context(), "api: cannot make a document", "path", r.URL.Path, "err", err)
			writeProblem(w, problem(http.StatusInternalServerError, "the document could not be made"))
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body) // an error means that the client has gone
	})
}

// hostKnown reports whether the API answers for the host of a request, whatever the port.
func (a *API) hostKnown(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, ok := a.hosts[strings.ToLower(host)]
	return ok
}
