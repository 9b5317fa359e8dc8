package lambdalabs

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Name is the catalogue's name of this cloud.
const Name = "lambda"

// DefaultEndpoint is the URL of the API.
const DefaultEndpoint = "https://cloud.lambda.ai"

// Config is the driver's configuration. Deployment, Key and Agents are required.
type Config struct {
	// Deployment is part of the name of each machine that is launched. The driver finds and terminates only machines
	// with such a name.
	Deployment string
	// Key returns the API key. It is called before every request, so that the key can be changed, and must be fast.
	Key func(context.Context) (string, error)
	// Endpoint is the API's base URL without its path; empty means DefaultEndpoint.
	Endpoint string
	HTTP     *http.Client // http.DefaultClient when nil
	// Regions are all regions in which machines may be bought; empty means any region.
	Regions []string
	Agents  driver.Agents
	// Environment is added to the environment of agents.
	Environment map[string]string
	// SSHKey names a key of the account that may log in to machines. If it is empty, the driver creates a key without
	// a private half: the API requires one, but the broker needs none.
	SSHKey string
	// Graves remember terminated clusters; if nil, in this process's memory.
	Graves driver.Graves
	// LaunchEvery is the minimum time between two launches; 0 means 12 s, the API's limit. Below 0 there is no limit.
	LaunchEvery time.Duration
	// SeenWithin is the maximum time until a new machine is listed; 0 means 20 s. LookEvery is the interval at which
	// the driver lists machines meanwhile; 0 means every second.
	SeenWithin, LookEvery time.Duration
	Log                   *slog.Logger
}

// Time limits of calls, and the defaults of Config.
const (
	readWithin   = 20 * time.Second
	launchWithin = 60 * time.Second
	undoWithin   = 60 * time.Second
	launchEvery  = 12 * time.Second // "Requests to /instance-operations/launch are limited to one per 12 seconds"
	seenWithin   = 20 * time.Second
	lookEvery    = time.Second
	// maxTurn is the maximum time for which a launch waits until it may be made. If it would be longer, the caller
	// gets an error with a RetryAfter.
	maxTurn = 2 * time.Minute
)

// Cloud is Lambda's GPU cloud. It implements cloud.Cloud and driver.Checker.
type Cloud struct {
	cfg    Config
	http   *http.Client
	log    *slog.Logger
	graves driver.Graves
	locks  driver.Locks

	mu     sync.Mutex
	next   time.Time // earliest time of the next launch
	sshKey string    // known to exist in the account
	known  map[string]*cluster
	ended  map[string]bool // clusters terminated by this process
}

// cluster has the machines of a cluster that this process has bought. Lists may lack them for a while.
type cluster struct {
	machines map[int]owned // by rank
	whole    bool          // a launch has returned all its machines
}

var (
	_ cloud.Cloud    = (*Cloud)(nil)
	_ driver.Checker = (*Cloud)(nil)
	_ driver.Cleaner = (*Cloud)(nil)
)

// New makes the driver. It makes no calls.
func New(cfg Config) *Cloud {
	if cfg.Endpoint == "" {
		cfg.Endpoint = DefaultEndpoint
	}
	cfg.Endpoint = strings.TrimSuffix(cfg.Endpoint, "/")
	orElse(&cfg.LaunchEvery, launchEvery)
	orElse(&cfg.SeenWithin, seenWithin)
	orElse(&cfg.LookEvery, lookEvery)
	c := &Cloud{cfg: cfg, log: cfg.Log, graves: cfg.Graves, sshKey: cfg.SSHKey, known: map[string]*cluster{},
		ended: map[string]bool{}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.graves == nil {
		c.graves = &driver.MemoryGraves{}
	}
	base := cfg.HTTP
	if base == nil {
		base = http.DefaultClient
	}
	// Redirects are not followed, because the key must go only to the endpoint.
	client := *base
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &client
	return c
}

func orElse(d *time.Duration, otherwise time.Duration) {
	if *d == 0 {
		*d = otherwise
	}
}

// Name implements cloud.Cloud.
func (c *Cloud) Name() string { return Name }

// Arch returns the architecture of a machine type, which the API does not report: those with Grace processors are Arm.
func Arch(instanceType string) string {
	if strings.Contains(instanceType, "gh200") || strings.Contains(instanceType, "gb200") {
		return "arm64"
	}
	return "amd64"
}

// waitForTurn waits until the next launch may be made. It fails with Throttled if that takes too long.
func (c *Cloud) waitForTurn(ctx context.Context) error {
	if c.cfg.LaunchEvery < 0 {
		return ctx.Err()
	}
	c.mu.Lock()
	now := time.Now()
	at := now
	if c.next.After(now) {
		at = c.next
	}
	wait := at.Sub(now)
	deadline, bound := ctx.Deadline()
	if wait > maxTurn || bound && deadline.Before(at) {
		c.mu.Unlock()
		return &cloud.Error{Kind: cloud.Throttled, Cloud: Name, Code: codePace, RetryAfter: wait,
			Message: "this deployment launches as often as the API allows"}
	}
	c.next = at.Add(c.cfg.LaunchEvery)
	c.mu.Unlock()
	return clock.Pause(ctx, wait)
}

// maxKnown is the maximum number of remembered clusters.
const maxKnown = 10_000

// bought records machines of a cluster, and whether the cluster is complete.
func (c *Cloud) bought(name string, whole bool, machines ...owned) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[name]
	if k == nil || whole {
		thin(c.known)
		k = &cluster{machines: map[int]owned{}, whole: whole}
		c.known[name] = k
	}
	for _, m := range machines {
		k.machines[m.rank] = m
	}
}

// terminated records that a cluster was terminated.
func (c *Cloud) terminated(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	thin(c.ended)
	c.ended[name] = true
	delete(c.known, name)
}

// thin removes half of a map when it is too large. The map only saves time.
func thin[V any](m map[string]V) {
	if len(m) >= maxKnown {
		for _, any := range slices.Collect(maps.Keys(m))[:maxKnown/2] {
			delete(m, any)
		}
	}
}

// members returns the machines of a cluster that this process has bought, by rank, and whether the
// cluster is complete.
func (c *Cloud) members(name string) (machines map[int]owned, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[name]; k != nil {
		return maps.Clone(k.machines), k.whole
	}
	return nil, false
}

// forget forgets a cluster that was undone.
func (c *Cloud) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, name)
}

// unlisted returns the machines of a cluster that this process has bought and that a list does not contain yet.
func (c *Cloud) unlisted(name string, list []owned) (missing []owned) {
	bought, _ := c.members(name)
	for _, m := range bought {
		if !slices.ContainsFunc(list, func(l owned) bool { return l.ID == m.ID }) {
			missing = append(missing, m)
		}
	}
	return missing
}
