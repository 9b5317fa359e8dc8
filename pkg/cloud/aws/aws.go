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

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Config is what the driver needs to know. Deployment is required; zero values of the others are useful.
type Config struct {
	// Deployment is the name that everything launched is tagged with, and all that is seen and terminated.
	Deployment string
	// Home is where the deployment itself runs; the SDK configuration's region when empty.
	Home string
	// Regions are all in which machines may be: what is elsewhere is never seen. Home alone when empty.
	Regions []string
	Agents  driver.Agents
	// Images are used instead of AWS's own where a task names none: ami-… or ssm:/parameter/name, by class of machine
	// (amd64, arm64, amd64-gpu, arm64-gpu, amd64-neuron).
	Images map[string]string
	// Environment is put in the environment of agents.
	Environment map[string]string
	// Tags are put on machines, volumes and requests, for policies that ask for some.
	Tags map[string]string
	// InstanceProfile, a name or an ARN, is given to machines for their tasks' own use; none when empty, as the broker
	// needs none. Everything that runs on the machine has its rights.
	InstanceProfile string
	// NoPublicAddress makes machines that have none: their subnet has to have another way out.
	NoPublicAddress bool
	// DiskGiB is the root volume of a machine that asks for none; 30 when 0.
	DiskGiB float64
	// Graves remember terminated clusters; in this process's memory when nil.
	Graves driver.Graves
	Log    *slog.Logger
}

// Times that calls may take, so that a region that does not answer holds up nothing for long.
const (
	readWithin   = 20 * time.Second
	launchWithin = 60 * time.Second
)

// Cloud is EC2 as the broker sees it. It implements cloud.Cloud.
type Cloud struct {
	cfg    Config
	sdk    awssdk.Config
	log    *slog.Logger
	graves driver.Graves
	locks  driver.Locks
	page   int32 // of lists; 0 is the largest

	mu      sync.Mutex
	regions map[string]*region
	homes   map[string]string // cluster -> region, of those launched here and not yet terminated
	enabled map[string]bool   // regions that the account may use; nil is not known
}

var _ cloud.Cloud = (*Cloud)(nil)

// New makes the driver. It calls nobody.
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

// region is one region's clients, and what is known of it.
type region struct {
	name  string
	cloud *Cloud
	ec2   *ec2.Client
	ssm   *ssm.Client
	facts facts
}

// at returns a region of the configured ones.
func (c *Cloud) at(ctx context.Context, name string) (*region, error) {
	if !slices.Contains(c.cfg.Regions, name) {
		return nil, fail(cloud.Quota, codeNoRegion, "region %q is not among those of this deployment: %v", name,
			c.cfg.Regions)
	}
	usable, err := c.usable(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(usable, name) {
		return nil, fail(cloud.Quota, codeNoRegion, "region %s is not enabled for this account", name)
	}
	return c.client(name), nil
}

// client makes a region's clients, once.
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

// usable are the configured regions that the account has enabled: in others nothing can be, and they take no calls.
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

// home says in which region this process launched a cluster, "" when it did not.
func (c *Cloud) home(cluster string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.homes[cluster]
}

// maxHomes bounds what is remembered; it only saves calls.
const maxHomes = 10_000

func (c *Cloud) settled(cluster, region string) {
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

// Regions are those of the deployment that the account has enabled.
func (c *Cloud) Regions(ctx context.Context) ([]string, error) {
	names, err := c.usable(ctx)
	if err != nil {
		return nil, Typed(err)
	}
	return slices.Clone(names), nil
}

// EC2 is the driver's client for a region.
func (c *Cloud) EC2(region string) *ec2.Client { return c.client(region).ec2 }

// Deployment is the name of the deployment that it buys for.
func (c *Cloud) Deployment() string { return c.cfg.Deployment }

// SDK is the driver's configuration, for clients of other services in a region.
func (c *Cloud) SDK(region string) awssdk.Config {
	sdk := c.sdk.Copy()
	sdk.Region = region
	return sdk
}
