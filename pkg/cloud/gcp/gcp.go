package gcp

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/option"
	tpu "google.golang.org/api/tpu/v2"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Config is what the driver needs to know. Deployment and Project are required; zero values of the others are useful.
type Config struct {
	// Deployment is the name by whose label everything launched is found again.
	Deployment string
	Project    string // its ID, not its number
	// Regions are all in which machines may be bought; every one of the project's when empty.
	Regions []string
	Agents  driver.Agents
	// Images are used instead of Google's own where a task names none, by class of machine (amd64, arm64, amd64-gpu):
	// projects/P/global/images/NAME or projects/P/global/images/family/NAME.
	Images map[string]string
	// Labels are put on machines and disks, for policies that ask for some.
	Labels map[string]string
	// Environment is put in the environment of agents.
	Environment map[string]string
	// DiskGiB is the boot disk of a machine that asks for none; 30 when 0.
	DiskGiB float64
	// Network and Subnetwork are names, or paths where they are of another project. The network default when both are
	// empty.
	Network, Subnetwork string
	// NoPublicAddress is for networks with a way out of their own (Cloud NAT).
	NoPublicAddress bool
	// ServiceAccount is what machines prove themselves with, by its address. It needs no role. Without one they have no
	// identity token.
	ServiceAccount string
	// TPUs says that TPUs may be bought; their API is asked then, and has to be on.
	TPUs bool
	// Graves remember terminated clusters; in this process's memory when nil.
	Graves driver.Graves
	Log    *slog.Logger
	// Endpoint is asked instead of https://SERVICE.googleapis.com, for all services: a proxy, or an emulator.
	Endpoint string
	// Client are further options of Google's clients: credentials, or an HTTP client. What the environment has when
	// empty.
	Client []option.ClientOption
}

// Times that calls may take, so that a zone that does not answer holds up nothing for long.
const (
	readWithin   = 20 * time.Second
	insertWithin = 60 * time.Second
	// waitWithin is how long a launch waits for its operation: less than the function that launches may take, and than
	// Google holds one question. One that takes longer is waited for by the next call.
	waitWithin = 75 * time.Second
)

// Cloud is Google Cloud as the broker sees it. It implements cloud.Cloud and driver.Checker.
type Cloud struct {
	cfg    Config
	log    *slog.Logger
	graves driver.Graves
	locks  driver.Locks
	facts  facts
	page   int64 // of lists; 0 is the largest

	mu      sync.Mutex
	service *compute.Service
	tpus    *tpu.Service
	homes   map[string]home // by cluster, of those launched here and not yet terminated
}

// home is where a cluster is.
type home struct {
	zone string
	done bool // the operation that bought it is over
	tpu  bool
}

var (
	_ cloud.Cloud    = (*Cloud)(nil)
	_ driver.Checker = (*Cloud)(nil)
)

// New makes the driver. It calls nobody.
func New(cfg Config) *Cloud {
	if cfg.DiskGiB <= 0 {
		cfg.DiskGiB = cloud.DefaultDiskGiB
	}
	if cfg.Network == "" && cfg.Subnetwork == "" {
		cfg.Network = "default"
	}
	cfg.Regions = slices.Compact(slices.Sorted(slices.Values(cfg.Regions)))
	c := &Cloud{cfg: cfg, log: cfg.Log, graves: cfg.Graves, facts: newFacts(), homes: map[string]home{}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.graves == nil {
		c.graves = &driver.MemoryGraves{}
	}
	return c
}

// Name implements cloud.Cloud.
func (c *Cloud) Name() string { return Name }

// Scopes of the tokens that are asked for: what the roles allow, and the address of whoever has them.
const (
	scopeCloud = "https://www.googleapis.com/auth/cloud-platform"
	scopeEmail = "https://www.googleapis.com/auth/userinfo.email"
)

// Options are those of a client of one of Google's services; path is what follows the host in the service's own
// address.
func (c *Cloud) Options(path string) []option.ClientOption {
	opts := []option.ClientOption{
		option.WithScopes(scopeCloud, scopeEmail), option.WithUserAgent("tradewind"),
		// Requests have user data in them, which the clients would log where their debugging is on.
		option.WithLogger(slog.New(slog.DiscardHandler)),
	}
	if c.cfg.Endpoint != "" {
		opts = append(opts, option.WithEndpoint(strings.TrimSuffix(c.cfg.Endpoint, "/")+path))
	}
	return append(opts, c.cfg.Client...)
}

// Project is the one that is bought in.
func (c *Cloud) Project() string { return c.cfg.Project }

// Compute is the driver's client. It is made when it is first needed, as finding credentials may take calls.
func (c *Cloud) Compute(ctx context.Context) (*compute.Service, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.service != nil {
		return c.service, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := compute.NewService(context.WithoutCancel(ctx), c.Options("/compute/v1/")...)
	if err != nil {
		return nil, &cloud.Error{Kind: cloud.Auth, Cloud: Name, Code: codeCredentials, Message: err.Error(), Err: err}
	}
	c.service = s
	return s, nil
}

// Serves says whether machines may be bought in a region.
func (c *Cloud) Serves(region string) bool {
	return len(c.cfg.Regions) == 0 || slices.Contains(c.cfg.Regions, region)
}

// serves refuses what cannot be bought here.
func (c *Cloud) serves(o apitypes.Offer) error {
	switch {
	case !c.Serves(o.Region):
		return fail(cloud.Quota, codeNoRegion, "region %q is not among those of this deployment: %v", o.Region,
			c.cfg.Regions)
	case o.Zone == "":
		return fail(cloud.Invalid, driver.CodeBadSpec, "the offer names no zone, and Google sells by zone")
	case regionOf(o.Zone) != o.Region:
		return fail(cloud.Invalid, driver.CodeBadSpec, "zone %s is not in region %s", o.Zone, o.Region)
	}
	return nil
}

// regionOf is the region of a zone: us-central1 of us-central1-a.
func regionOf(zone string) string {
	if i := strings.LastIndexByte(zone, '-'); i > 0 {
		return zone[:i]
	}
	return zone
}

// maxHomes bounds what is remembered; it only saves calls.
const maxHomes = 10_000

func (c *Cloud) home(cluster string) home {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.homes[cluster]
}

// settle remembers where a cluster is; the zero home forgets it.
func (c *Cloud) settle(cluster string, h home) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h == (home{}) {
		delete(c.homes, cluster)
		return
	}
	if len(c.homes) >= maxHomes {
		for _, any := range slices.Collect(maps.Keys(c.homes))[:maxHomes/2] {
			delete(c.homes, any)
		}
	}
	c.homes[cluster] = h
}
