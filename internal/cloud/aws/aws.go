package aws

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Config is the driver's configuration. Deployment is required; the zero values of the other fields are defaults.
type Config struct {
	// Deployment is the name in the tag of each machine that is launched. The driver finds and terminates only
	// machines with this tag.
	Deployment string
	// Home is the region in which the deployment itself runs; if empty, the SDK configuration's region.
	Home string
	// Regions are all regions in which machines may be. The driver uses no others. Empty means only Home.
	Regions []string
	Agents  driver.Agents
	// Images replace AWS's default images for tasks that name none: ami-… or ssm:/parameter/name, by class of machine
	// (amd64, arm64, amd64-gpu, arm64-gpu, amd64-neuron).
	Images map[string]string
	// Environment is added to the environment of agents.
	Environment map[string]string
	// Tags are put on machines, volumes and requests, for accounts whose policies require tags.
	Tags map[string]string
	// InstanceProfile, a name or an ARN, is attached to machines for the use of their tasks. Every process on the
	// machine has its rights. If it is empty, machines have no profile, because the broker needs none.
	InstanceProfile string
	// NoPublicAddress makes machines without a public address. Their subnet then needs another way to the internet.
	NoPublicAddress bool
	// DiskGiB is the size of the root volume for a machine whose spec sets no size; 0 means 30.
	DiskGiB float64
	// Graves remember terminated clusters; if nil, in this process's memory.
	Graves driver.Graves
	Log    *slog.Logger
}

// Time limits of calls, so that a region that does not answer delays the other regions only briefly.
const (
	readWithin   = 20 * time.Second
	launchWithin = 60 * time.Second
)

// Cloud is EC2. It implements cloud.Cloud.
type Cloud struct {
	cfg    Config
	sdk    awssdk.Config
	log    *slog.Logger
	graves driver.Graves
	locks  driver.Locks
	page   int32 // page size of lists; 0 is the largest

	mu      sync.Mutex
	regions map[string]*region
	homes   map[string]string // cluster -> region, of clusters launched by this process and not yet terminated
	enabled map[string]bool   // regions that the account may use; nil until read
}

var _ cloud.Cloud = (*Cloud)(nil)

// New makes the driver. It makes no calls.
func New(sdk awssdk.Config, cfg Config) *Cloud {
	if cfg.Home == "" {
		cfg.Home = sdk.Region
	}
	if len(cfg.Regions) == 0 {
		cfg.Regions = []string{cfg.Home}
	}
	cfg.Regions = slices.Compact(slices.Sorted(slices.Values(cfg.Regions)))
	if cfg.DiskGiB <= 0 {
		cfg.DiskGiB = cloud.DefaultDiskGiB
	}
	c := &Cloud{cfg: cfg, sdk: sdk, log: cfg.Log, graves: cfg.Graves, regions: map[string]*region{},
		homes: map[string]string{}}
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

// region holds one region's clients and cached facts.
type region struct {
	name  string
	cloud *Cloud
	ec2   *ec2.Client
	ssm   *ssm.Client
	facts facts
}

// at returns a configured region that the account has enabled.
func (c *Cloud) at(ctx context.Context, name string) (*region, error) {
	if !slices.Contains(c.cfg.Regions, name) {
		return nil, failRegion(cloud.Quota, codeNoRegion, "region %q is not among the regions of this deployment: %v",
			name, c.cfg.Regions)
	}
	usable, err := c.usable(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(usable, name) {
		return nil, failRegion(cloud.Quota, codeNoRegion, "region %s is not enabled for this account. "+
			"Enable it: aws account enable-region --region-name %s", name, name)
	}
	return c.client(name), nil
}

// client returns a region's clients, made at first use.
func (c *Cloud) client(name string) *region {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.regions[name]
	if !ok {
		sdk := c.sdk.Copy()
		sdk.Region = name
		r = &region{name: name, cloud: c, ec2: ec2.NewFromConfig(sdk), ssm: ssm.NewFromConfig(sdk), facts: newFacts()}
		c.regions[name] = r
	}
	return r
}

// usable returns the configured regions that the account has enabled. Regions that are not enabled have no machines
// and refuse calls.
func (c *Cloud) usable(ctx context.Context) ([]string, error) {
	if len(c.cfg.Regions) == 1 && c.cfg.Regions[0] == c.cfg.Home {
		return c.cfg.Regions, nil
	}
	c.mu.Lock()
	known := c.enabled
	c.mu.Unlock()
	if known == nil {
		ctx, cancel := context.WithTimeout(ctx, readWithin)
		defer cancel()
		out, err := c.client(c.cfg.Home).ec2.DescribeRegions(ctx,
			&ec2.DescribeRegionsInput{AllRegions: awssdk.Bool(false)})
		if err != nil {
			return nil, err
		}
		known = map[string]bool{}
		for _, r := range out.Regions {
			known[awssdk.ToString(r.RegionName)] = true
		}
		c.mu.Lock()
		c.enabled = known
		c.mu.Unlock()
	}
	return slices.DeleteFunc(slices.Clone(c.cfg.Regions), func(name string) bool { return !known[name] }), nil
}

// home returns the region in which this process launched a cluster, or "".
func (c *Cloud) home(cluster string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.homes[cluster]
}

// maxHomes is the maximum number of remembered clusters; the map only saves calls.
const maxHomes = 10_000

func (c *Cloud) setHome(cluster, region string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if region == "" {
		delete(c.homes, cluster)
		return
	}
	if len(c.homes) >= maxHomes {
		for _, any := range slices.Collect(maps.Keys(c.homes))[:maxHomes/2] {
			delete(c.homes, any)
		}
	}
	c.homes[cluster] = region
}

// Regions returns the deployment's regions that the account has enabled.
func (c *Cloud) Regions(ctx context.Context) ([]string, error) {
	names, err := c.usable(ctx)
	if err != nil {
		return nil, Typed(err)
	}
	return slices.Clone(names), nil
}

// EC2 returns the driver's client for a region.
func (c *Cloud) EC2(region string) *ec2.Client { return c.client(region).ec2 }

// Deployment returns the name of the deployment that the driver buys for.
func (c *Cloud) Deployment() string { return c.cfg.Deployment }

// SDK returns the driver's configuration, for clients of other services in a region.
func (c *Cloud) SDK(region string) awssdk.Config {
	sdk := c.sdk.Copy()
	sdk.Region = region
	return sdk
}
