package lambda

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/clock"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Name is the catalogue's name of this cloud.
const Name = "lambda"

// DefaultEndpoint is where the API is.
const DefaultEndpoint = "https://cloud.lambda.ai"

// Config is what the driver needs to know. Deployment, Key and Agents are required.
type Config struct {
	// Deployment is what all that is launched is named after, and all that is seen and terminated.
	Deployment string
	// Key returns the API key. It is asked before every call, so that a key may be changed, and has to be quick.
	Key func(context.Context) (string, error)
	// Endpoint is the API's base URL without its path; DefaultEndpoint when empty.
	Endpoint string
	HTTP     *http.Client // http.DefaultClient when nil
	// Regions are all in which machines may be bought; any when empty.
	Regions []string
	Agents  driver.Agents
	// Environment is put in the environment of agents.
	Environment map[string]string
	// SSHKey names a key of the account's that machines let in. When empty one is made that nobody has: the API wants
	// one, and the broker needs none.
	SSHKey string
	// Graves remember terminated clusters; in this process's memory when nil.
	Graves driver.Graves
	// LaunchEvery is the least time between two launches; 12 s when 0, as the API allows. Below 0 is no bound.
	LaunchEvery time.Duration
	// SeenWithin is how long a machine that was bought may take to be listed; 20 s when 0. LookEvery is how often it is
	// looked for meanwhile; every second when 0.
	SeenWithin, LookEvery time.Duration
	Log                   *slog.Logger
}

// Times that calls may take, and the defaults of Config's.
const (
	readWithin   = 20 * time.Second
	launchWithin = 60 * time.Second
	undoWithin   = 60 * time.Second
	launchEvery  = 12 * time.Second // "Requests to /instance-operations/launch are limited to one per 12 seconds"
	seenWithin   = 20 * time.Second
	lookEvery    = time.Second
	// maxTurn is how long a launch waits for its turn; whoever would wait longer is told when to come again.
	maxTurn = 2 * time.Minute
)

// Cloud is Lambda's GPU cloud as the broker sees it. It implements cloud.Cloud and driver.Checker.
type Cloud struct {
	cfg    Config
	http   *http.Client
	log    *slog.Logger
	graves driver.Graves
	locks  driver.Locks

	mu     sync.Mutex
	next   time.Time // when the next launch may be made
	sshKey string    // the account has it
	known  map[string]*cluster
	ended  map[string]bool // clusters that this process has terminated
}

// cluster is what this process has bought of one: lists may lack it for a while.
type cluster struct {
	machines map[int]owned // by rank
	whole    bool          // a launch has told of it
}

var (
	_ cloud.Cloud    = (*Cloud)(nil)
	_ driver.Checker = (*Cloud)(nil)
)

// New makes the driver. It calls nobody.
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
	// The key goes to the endpoint alone: an API does not send one elsewhere.
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

// Arch is the architecture of a machine type, which the API does not tell: those with Grace processors are Arm.
func Arch(instanceType string) string {
	if strings.Contains(instanceType, "gh200") || strings.Contains(instanceType, "gb200") {
		return "arm64"
	}
	return "amd64"
}

// turn waits until the next launch may be made. It fails with Throttled where that takes too long.
func (c *Cloud) turn(ctx context.Context) error {
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

// maxKnown bounds what is remembered of clusters.
const maxKnown = 10_000

// bought notes machines of a cluster, and whether they are all of it.
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

// terminated notes that a cluster is no more.
func (c *Cloud) terminated(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	thin(c.ended)
	c.ended[name] = true
	delete(c.known, name)
}

// thin forgets half of what a map has when it has too much: it only serves to know sooner.
func thin[V any](m map[string]V) {
	if len(m) >= maxKnown {
		for _, any := range slices.Collect(maps.Keys(m))[:maxKnown/2] {
			delete(m, any)
		}
	}
}

// members are the machines of a cluster that this process has bought, by rank, and whether they were all of it.
func (c *Cloud) members(name string) (machines map[int]owned, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[name]; k != nil {
		return maps.Clone(k.machines), k.whole
	}
	return nil, false
}

// forget drops what is known of a cluster: it was undone.
func (c *Cloud) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, name)
}

// unlisted are the machines that this process bought of a cluster and that a list does not have yet.
func (c *Cloud) unlisted(name string, list []owned) (missing []owned) {
	bought, _ := c.members(name)
	for _, m := range bought {
		if !slices.ContainsFunc(list, func(l owned) bool { return l.ID == m.ID }) {
			missing = append(missing, m)
		}
	}
	return missing
}
