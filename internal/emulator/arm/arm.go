// Package arm is an Azure subscription in memory: an HTTP server that speaks Azure Resource Manager's protocol, and
// that of the retail prices, to Microsoft's own SDK. Requests are read, and answers written, by the fake servers that
// the SDK's modules bring along, so that both are of the published form; a request with a field that the published
// models lack is refused. What those leave out is here: asynchronous operations with Azure-AsyncOperation, pages,
// conditions, and the state of machines with their interfaces, addresses and disks.
//
// It has the bad days in it, which a test brings about from Go: sizes that run dry at once or late in the operation,
// quotas, throttling, missing rights and registrations, clocks that are off, lists that lag, answers that get lost,
// evictions with notice, leftovers; and it keeps the bill. With a folder given, machines are real processes.
//
// Time passes for an operation when it is asked for, or after Config.Within. Nothing here is part of the product.
package arm

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/bootstrap/azuretest"
)

// Config is what the subscription is like. All of it may be left out.
type Config struct {
	Subscription string
	Group        string // the resource group that is there from the start
	Locations    []Location
	Sizes        []Size
	Limits       map[string]int // of vCPUs by quota name ("cores", "lowPriorityCores", a family), in every location
	// Dir is where machines boot as processes, each in a folder of its name; they are records alone without.
	Dir string
	// Environment is what booting machines find set, beside what bootstrap and the metadata service need.
	Environment []string
	Authority   *azuretest.Authority // signs attested documents; nil attests nothing
	Steps       int                  // how often an operation is asked for before it is done; 2 when 0
	Within      time.Duration        // after which operations are done unasked; never when 0
	Page        int                  // machines in a page of a list; 50 when 0
	Now         func() time.Time
}

// Location is a region with its zones: their logical numbers as this subscription sees them, and the physical zones.
type Location struct {
	Name  string
	Zones map[string]string // "1": "eastus-az2"
}

// Size is a type of machine. Prices are in USD per hour, in every location.
type Size struct {
	Name, Family string
	VCPU         int
	MemoryGiB    float64
	GPUs         int
	Arm          bool
	Zones        []string // logical ones; none where it is sold by region alone
	Restricted   bool     // not for this subscription
	USD, SpotUSD float64
	// OneYearUSD and ThreeYearsUSD are what it takes of savings plans; 0 where they do not cover it.
	OneYearUSD, ThreeYearsUSD float64
	// Series is the group that shares reservations which are flexible, and Ratio what a machine takes of them.
	Series, Ratio string

	LowPriority   bool   // has a price for low priority, which is no spot price, as well
	MeterName     string // in the price list; made of the name when empty
	OnlyFirstGen  bool
	NoSpotCapable bool
}

// Server is the subscription. It is an http.Handler; its methods are safe for concurrent use.
type Server struct {
	cfg Config

	mu         sync.Mutex
	groups     map[string]bool
	tags       map[string]*string   // of the group that was made last
	resources  map[string]*resource // by lower-case ID: all but machines
	machines   map[string]*virtual  // by lower-case name
	operations map[string]*operation
	providers  map[string]bool // registered
	troubles   []*Trouble
	dry        []Stock
	reserved   []*Reservation
	plans      []Plan
	bought     []Bought
	late       []*Trouble
	lag        int // of lists, in lists
	strand     int
	strict     []string // what requests had that the published models lack
	calls      map[string]int
	bills      []Bill
	denied     map[string]bool
	principals map[string]string // types of those whom the directory is known to have, by ID
	skew       time.Duration
	tokens     map[string]bool
	subnets    int
}

// DefaultSubscription is the one that a Config without one has.
const DefaultSubscription = "8d10da13-8125-4ba9-a717-bf7490507b3d"

// New makes a subscription.
func New(cfg Config) *Server {
	if cfg.Subscription == "" {
		cfg.Subscription = DefaultSubscription
	}
	if cfg.Group == "" {
		cfg.Group = "tradewind"
	}
	if len(cfg.Locations) == 0 {
		cfg.Locations = []Location{
			{Name: "eastus", Zones: map[string]string{"1": "eastus-az2", "2": "eastus-az3", "3": "eastus-az1"}},
			{Name: "westeurope", Zones: map[string]string{"1": "westeurope-az1", "2": "westeurope-az2"}},
			{Name: "northcentralus"},
		}
	}
	if len(cfg.Sizes) == 0 {
		cfg.Sizes = DefaultSizes()
	}
	if cfg.Steps == 0 {
		cfg.Steps = 2
	}
	if cfg.Page == 0 {
		cfg.Page = 50
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Server{
		cfg: cfg, groups: map[string]bool{strings.ToLower(cfg.Group): true}, resources: map[string]*resource{},
		machines: map[string]*virtual{}, operations: map[string]*operation{}, calls: map[string]int{},
		providers: map[string]bool{"microsoft.compute": true, "microsoft.network": true},
		denied:    map[string]bool{}, principals: map[string]string{}, tokens: map[string]bool{Token: true},
	}
}

// DefaultSizes are some of each kind: for anything, with ARM processors, with a GPU, old, not for this subscription.
func DefaultSizes() []Size {
	all := []string{"1", "2", "3"}
	return []Size{
		{
			Name:        "Standard_D2s_v5",
			Family:      "standardDSv5Family",
			VCPU:        2,
			MemoryGiB:   8,
			Zones:       all,
			USD:         0.096,
			SpotUSD:     0.0182,
			LowPriority: true,
			OneYearUSD:  0.0663, ThreeYearsUSD: 0.0442,
		},
		{
			Name:      "Standard_D2ps_v5",
			Family:    "standardDPSv5Family",
			VCPU:      2,
			MemoryGiB: 8,
			Arm:       true,
			Zones:     all,
			USD:       0.077,
			SpotUSD:   0.0154,
		},
		{
			Name:      "Standard_NC4as_T4_v3",
			Family:    "Standard NCASv3_T4 Family",
			VCPU:      4,
			MemoryGiB: 28,
			GPUs:      1,
			Zones:     []string{"1"},
			USD:       0.526,
			SpotUSD:   0.1,
		},
		{Name: "Standard_A1_v2", Family: "standardAv2Family", VCPU: 1, MemoryGiB: 2, USD: 0.043, OnlyFirstGen: true,
			NoSpotCapable: true},
		{Name: "Standard_ND96isr_H100_v5", Family: "standardNDSH100v5Family", VCPU: 96, MemoryGiB: 1900, GPUs: 8,
			Restricted: true, USD: 98.32, SpotUSD: 30},
	}
}

// Token is what a caller has to bear.
const Token = "header.eyJvaWQiOiI3IiwidXBuIjoiYWRhQGV4YW1wbGUuY29tIiwidGlkIjoidDEifQ.signature" //nolint:gosec // of nobody

// Fault is an error as the cloud answers it.
type Fault struct {
	Status        int
	Code, Message string
	RetryAfter    time.Duration
}

func (f *Fault) Error() string { return f.Code + ": " + f.Message }

func fault(status int, code, format string, args ...any) *Fault {
	return &Fault{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// ServeHTTP answers a request as the cloud does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := httptest.NewRecorder()
	s.mu.Lock()
	lose, err := s.handle(rec, r)
	w.Header().Set("Date", s.cfg.Now().Add(s.skew).UTC().Format(http.TimeFormat))
	s.mu.Unlock()
	var f *Fault
	switch {
	case lose: // it is done, and nobody hears of it
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.Close()
		}
		return
	case errors.As(err, &f):
		writeFault(w, f)
		return
	case err != nil:
		writeFault(w, fault(http.StatusInternalServerError, "InternalServerError", "%v", err))
		return
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

func writeFault(w http.ResponseWriter, f *Fault) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": f.Code, "message": f.Message}})
}

// handle does what is asked, under the lock. It says whether the answer is to get lost.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) (lose bool, err error) {
	if r.URL.Path == "/api/retail/prices" {
		return false, s.prices(w, r)
	}
	if err := s.authenticate(r); err != nil {
		return false, err
	}
	kind := kindOf(r)
	s.calls[kind]++
	lose, before := s.trouble(kind)
	if before != nil {
		return false, before
	}
	return lose, s.route(w, r)
}

func (s *Server) authenticate(r *http.Request) error {
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	now := s.cfg.Now().UTC().Truncate(time.Second)
	switch {
	case !ok:
		return fault(http.StatusUnauthorized, "AuthenticationFailed",
			"Authentication failed. The 'Authorization' header is missing.")
	case s.skew != 0:
		return fault(http.StatusUnauthorized, "ExpiredAuthenticationToken",
			"The access token expiry UTC time '%s' is earlier than current UTC time '%s'.",
			now.Format(time.RFC3339), now.Add(s.skew).Format(time.RFC3339))
	case !s.tokens[bearer]:
		return fault(http.StatusUnauthorized, "InvalidAuthenticationToken", "The access token is invalid.")
	}
	return nil
}

// newID makes up an ID as Azure's are.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
