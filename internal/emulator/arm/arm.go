// Package arm is an in-memory Azure subscription: an HTTP server that speaks the protocols of Azure Resource Manager
// and of the retail prices to Microsoft's own SDK. The fake servers of the SDK's modules read requests and write
// answers, so both have the published form; a request with a field that the published models lack is rejected. This
// package adds what the fakes lack: asynchronous operations with Azure-AsyncOperation, pages, conditions, and the
// state of machines with their interfaces, addresses and disks.
//
// Tests can inject failures from Go: sizes that run out (at once or late in the operation), quotas, throttling,
// missing rights and registrations, wrong clocks, lists that lag, lost answers, evictions with notice, leftovers. The
// server also keeps the bill. With Config.Dir set, machines are real processes.
//
// An operation advances when it is polled, or after Config.Within. Nothing here is part of the product.
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

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
)

// Config describes the subscription. All fields are optional.
type Config struct {
	Subscription string
	Group        string // the resource group that exists at the start
	Locations    []Location
	Sizes        []Size
	Limits       map[string]int // vCPUs by quota name ("cores", "lowPriorityCores", a family), in every location
	// Dir has a folder for each machine, which boots as a process. If it is empty, machines are only records.
	Dir string
	// Environment has variables for booting machines, in addition to those for bootstrap and the metadata service.
	Environment []string
	Authority   *imdstest.AzureAuthority // signs attested documents; nil attests nothing
	Steps       int                      // number of polls until an operation is done; 0 means 2
	Within      time.Duration            // after which operations are done without polls; 0 means never
	Page        int                      // machines in a page of a list; 0 means 50
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
	Zones        []string // logical zones; none if it is sold only by region
	Restricted   bool     // not available to this subscription
	USD, SpotUSD float64
	// OneYearUSD and ThreeYearsUSD are its rates in savings plans; 0 if they do not cover it.
	OneYearUSD, ThreeYearsUSD float64
	// Series is the group that shares flexible reservations. Ratio is the number of units of such a reservation that
	// a machine uses.
	Series, Ratio string

	LowPriority   bool   // also has a low-priority price, which is not a spot price
	MeterName     string // in the price list; empty means derived from the name
	OnlyFirstGen  bool
	NoSpotCapable bool
	// Confidential is the technology of a confidential size: SNP or TDX. Such a machine needs a security type.
	Confidential string
	// Available is the number of vCPUs that a machine of a constrained size has. VCPU is the number for which it is
	// billed. 0 means VCPU.
	Available int
}

// Server is the subscription. It is an http.Handler; its methods are safe for concurrent use.
type Server struct {
	cfg Config

	mu         sync.Mutex
	groups     map[string]bool
	ending     map[string]int       // number of requests until a group in deletion is gone
	tags       map[string]*string   // of the group created last
	resources  map[string]*resource // by lower-case ID: all but machines
	machines   map[string]*virtual  // by lower-case name
	operations map[string]*operation
	providers  map[string]bool // registered
	registers  map[string]int  // number of reads until a registration in progress has ended
	unknown    map[string]int  // by lower-case ID of a new role: number of assignments that do not find it yet
	troubles   []*Trouble
	dry        []Shortage
	reserved   []*Reservation
	plans      []Plan
	bought     []ReservedInstances
	late       []*Trouble
	lag        int // number of lists that lack a new machine
	strand     int
	strict     []string // fields of requests that the published models lack
	calls      map[string]int
	bills      []Bill
	denied     map[string]bool
	principals map[string]string // types of known principals of the directory, by ID
	skew       time.Duration
	tokens     map[string]bool
	subnets    int
	trial      bool
}

// DefaultSubscription is the default of Config.Subscription.
const DefaultSubscription = "8d10da13-8125-4ba9-a717-bf7490507b3d"

// New returns a subscription.
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
		cfg: cfg, groups: map[string]bool{strings.ToLower(cfg.Group): true}, ending: map[string]int{},
		resources: map[string]*resource{},
		machines:  map[string]*virtual{}, operations: map[string]*operation{}, calls: map[string]int{},
		providers: map[string]bool{"microsoft.compute": true, "microsoft.network": true},
		registers: map[string]int{}, unknown: map[string]int{},
		denied: map[string]bool{}, principals: map[string]string{}, tokens: map[string]bool{Token: true},
	}
}

// DefaultSizes returns some sizes of each kind: general, ARM, with a GPU, old, not for this subscription.
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

// IssuersPath is the path at which the server serves the certificates of the issuers of Config.Authority.
const IssuersPath = "/pkiops/certs"

// Token is the bearer token that requests need.
const Token = "header.eyJvaWQiOiI3IiwidXBuIjoiYWRhQGV4YW1wbGUuY29tIiwidGlkIjoidDEifQ.signature" //nolint:gosec // not a real token

// Fault is an error answer of the cloud.
type Fault struct {
	Status        int
	Code, Message string
	RetryAfter    time.Duration
}

func (f *Fault) Error() string { return f.Code + ": " + f.Message }

func fault(status int, code, format string, args ...any) *Fault {
	return &Fault{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// ServeHTTP answers a request like the cloud.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a := s.cfg.Authority; a != nil && strings.HasPrefix(r.URL.Path, IssuersPath) {
		a.ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	s.mu.Lock()
	lose, err := s.handle(rec, r)
	w.Header().Set("Date", s.cfg.Now().Add(s.skew).UTC().Format(http.TimeFormat))
	s.mu.Unlock()
	var f *Fault
	switch {
	case lose: // the request is done, but its answer is lost
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

// handle executes a request. Callers hold the lock. lose is true if the answer must get lost.
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

// newID returns a new ID in Azure's format.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
