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

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Config is the driver's configuration. Deployment and Project are required; the zero values of the other fields are
// defaults.
type Config struct {
	// Deployment is the name in the label of each resource that is launched. The driver finds its resources by it.
	Deployment string
	Project    string // its ID, not its number
	// Regions are all regions in which machines may be bought. Empty means all regions of the project.
	Regions []string
	Agents  driver.Agents
	// Images replace Google's default images for tasks that name none, by class of machine (amd64, arm64, amd64-gpu):
	// projects/P/global/images/NAME or projects/P/global/images/family/NAME.
	Images map[string]string
	// Labels are put on machines and disks, for projects whose policies require labels.
	Labels map[string]string
	// Environment is added to the environment of agents.
	Environment map[string]string
	// DiskGiB is the size of the boot disk for a machine whose spec sets no size; 0 means 30.
	DiskGiB float64
	// Network and Subnetwork are names, or paths if they belong to another project. If both are empty, the network
	// "default" is used.
	Network, Subnetwork string
	// NoPublicAddress makes machines without a public address. Their network then needs another way to the internet
	// (Cloud NAT).
	NoPublicAddress bool
	// ServiceAccount is the email address of the account with which machines prove their identity. It needs no role.
	// Without one, machines have no identity token.
	ServiceAccount string
	// TPUs allows buying TPUs. Their API is called only then, and must be enabled.
	TPUs bool
	// Graves remember terminated clusters; if nil, in this process's memory.
	Graves driver.Graves
	Log    *slog.Logger
	// Endpoint replaces https://SERVICE.googleapis.com for all services: a proxy, or an emulator.
	Endpoint string
	// Client are more options of Google's clients: credentials, or an HTTP client. If they are empty, the environment
	// provides these.
	Client []option.ClientOption
}

// Time limits of calls, so that a zone that does not answer delays the other zones only briefly.
const (
	readWithin   = 20 * time.Second
	insertWithin = 60 * time.Second
	// waitWithin is the maximum time for which a launch waits for its operation. It is less than the time limit of
	// the launching function, and less than the time for which Google keeps one wait call open. A slower operation is
	// waited for by the next call.
	waitWithin = 75 * time.Second
)

// Cloud is Google Cloud. It implements cloud.Cloud and driver.Checker.
type Cloud struct {
	cfg    Config
	log    *slog.Logger
	graves driver.Graves
	locks  driver.Locks
	facts  facts
	page   int64 // page size of lists; 0 is the largest

	mu      sync.Mutex
	service *compute.Service
	tpus    *tpu.Service
	homes   map[string]home // by cluster, for clusters launched by this process and not yet terminated
}

// home is where a cluster is.
type home struct {
	zone string
	done bool // the operation that bought it has finished
	tpu  bool
}

var (
	_ cloud.Cloud    = (*Cloud)(nil)
	_ driver.Checker = (*Cloud)(nil)
)

// New makes the driver. It makes no calls.
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

// Scopes of requested tokens: everything that the roles allow, and the email address of the account.
const (
	scopeCloud = "https://www.googleapis.com/auth/cloud-platform"
	scopeEmail = "https://www.googleapis.com/auth/userinfo.email"
)

// Options returns the options for a client of one of Google's services; path follows the host in the service's URL.
func (c *Cloud) Options(path string) []option.ClientOption {
	opts := []option.ClientOption{
		option.WithScopes(scopeCloud, scopeEmail), option.WithUserAgent("tradewind"),
		// Requests contain user data, which the clients would log if their debugging is on.
		option.WithLogger(slog.New(slog.DiscardHandler)),
	}
	if c.cfg.Endpoint != "" {
		opts = append(opts, option.WithEndpoint(strings.TrimSuffix(c.cfg.Endpoint, "/")+path))
	}
	return append(opts, c.cfg.Client...)
}

// Project is the project in which machines are bought.
func (c *Cloud) Project() string { return c.cfg.Project }

// Compute returns the driver's client. It is made at first use, because finding credentials may take calls.
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

// Serves reports whether machines may be bought in a region.
func (c *Cloud) Serves(region string) bool {
	return len(c.cfg.Regions) == 0 || slices.Contains(c.cfg.Regions, region)
}

// serves returns an error for an offer that this deployment cannot buy.
func (c *Cloud) serves(o apitypes.Offer) error {
	switch {
	case !c.Serves(o.Region):
		return cloud.OfRegion(fail(cloud.Quota, codeNoRegion,
			"region %q is not among the regions of this deployment: %v", o.Region, c.cfg.Regions))
	case o.Zone == "":
		return fail(cloud.Invalid, driver.CodeBadSpec, "the offer names no zone, but Google sells by zone")
	case regionOf(o.Zone) != o.Region:
		return fail(cloud.Invalid, driver.CodeBadSpec, "zone %s is not in region %s", o.Zone, o.Region)
	}
	return nil
}

// regionOf returns the region of a zone: us-central1 for us-central1-a.
func regionOf(zone string) string {
	if i := strings.LastIndexByte(zone, '-'); i > 0 {
		return zone[:i]
	}
	return zone
}

// maxHomes is the maximum number of remembered clusters; the map only saves calls.
const maxHomes = 10_000

func (c *Cloud) home(cluster string) home {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.homes[cluster]
}

// setHome records the place of a cluster. The zero home removes the record.
func (c *Cloud) setHome(cluster string, h home) {
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
