package azure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armsubscriptions"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Config is the driver's configuration. Deployment, Subscription, Regions and Credential are required.
type Config struct {
	// Deployment is the name in the tag of each resource that is launched. The driver finds and terminates only
	// machines with this tag.
	Deployment   string
	Subscription string
	// ResourceGroup contains all machines, in all regions; Deployment when empty.
	ResourceGroup string
	// Regions are all regions in which machines may be made.
	Regions []string
	Agents  driver.Agents
	// Images replace the default Ubuntu images for tasks that name none, by class of machine (amd64, arm64,
	// amd64-gpu, amd64-v100, amd64-rocm, amd64-gen1): PUBLISHER:OFFER:SKU:VERSION, or the ID of an image.
	Images map[string]string
	// Subnets are the IDs of existing subnets by region. In a region without one, the driver creates a subnet.
	Subnets map[string]string
	// Tags are put on all resources, for subscriptions whose policies require tags.
	Tags map[string]string
	// Environment is added to the environment of agents.
	Environment map[string]string
	// DiskGiB is the size of the root disk for a machine whose spec sets no size; 0 means 30.
	DiskGiB float64
	// NoPublicAddress makes machines without a public address. Their subnet then needs another way to the internet.
	NoPublicAddress bool
	// Graves remember terminated clusters; if nil, in this process's memory.
	Graves     driver.Graves
	Log        *slog.Logger
	Credential azcore.TokenCredential
	// Options select another Azure cloud, or a transport; nil is the public cloud.
	Options *arm.ClientOptions
}

// Time limits of calls, so that an API that does not answer delays the other APIs only briefly.
const (
	readWithin   = 20 * time.Second
	writeWithin  = 30 * time.Second
	launchWithin = 75 * time.Second
	undoWithin   = 20 * time.Second
)

// maxRetryDelay is the maximum time for which the SDK waits before it retries a read. If Azure requests a longer
// wait, the driver returns the error.
const maxRetryDelay = 3 * time.Second

// Cloud is an Azure subscription. It implements cloud.Cloud.
type Cloud struct {
	cfg    Config
	log    *slog.Logger
	graves driver.Graves
	locks  driver.Locks
	pause  time.Duration // between two polls
	now    func() time.Time

	raw       *arm.Client
	machines  *armcompute.VirtualMachinesClient
	usage     *armcompute.UsageClient
	skus      *armcompute.ResourceSKUsClient
	resources *armresources.Client
	reserved  *armcompute.CapacityReservationsClient

	reservedGroups *armcompute.CapacityReservationGroupsClient

	groups        *armresources.ResourceGroupsClient
	providers     *armresources.ProvidersClient
	subscriptions *armsubscriptions.Client

	mu      sync.Mutex
	whole   map[string]bool              // clusters that this process has seen with all machines
	subnets map[string]string            // known subnets, by region
	zones   map[string]map[string]string // by region: physical zone -> logical zone
	first   map[string]bool              // machine types that were found to boot only first-generation images
	swept   time.Time                    // time of the last sweep of the deployment
}

var (
	_ cloud.Cloud    = (*Cloud)(nil)
	_ driver.Checker = (*Cloud)(nil)
	_ driver.Cleaner = (*Cloud)(nil)
)

// ErrConfig means that a Config is incomplete.
var ErrConfig = errors.New("azure")

// New makes the driver. It makes no calls, and fails with ErrConfig.
func New(cfg Config) (*Cloud, error) {
	switch {
	case cfg.Deployment == "":
		return nil, fmt.Errorf("%w: no deployment", ErrConfig)
	case cfg.Subscription == "":
		return nil, fmt.Errorf("%w: no subscription", ErrConfig)
	case len(cfg.Regions) == 0:
		return nil, fmt.Errorf("%w: no regions", ErrConfig)
	case cfg.Credential == nil:
		return nil, fmt.Errorf("%w: no credential", ErrConfig)
	}
	if cfg.ResourceGroup == "" {
		cfg.ResourceGroup = cfg.Deployment
	}
	cfg.Regions = slices.Compact(slices.Sorted(slices.Values(cfg.Regions)))
	if cfg.DiskGiB <= 0 {
		cfg.DiskGiB = cloud.DefaultDiskGiB
	}
	c := &Cloud{
		cfg: cfg, log: cfg.Log, graves: cfg.Graves, pause: 2 * time.Second, now: time.Now, whole: map[string]bool{},
		subnets: map[string]string{}, zones: map[string]map[string]string{}, first: map[string]bool{},
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.graves == nil {
		c.graves = &driver.MemoryGraves{}
	}
	if err := c.connect(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, nil
}

// connect makes the clients, which share connections.
func (c *Cloud) connect() error {
	o := arm.ClientOptions{}
	if c.cfg.Options != nil {
		o = *c.cfg.Options
	}
	o.DisableRPRegistration = true // setup registers the providers; the driver may not
	if o.Retry.MaxRetries == 0 {
		o.Retry = policy.RetryOptions{MaxRetries: 2, MaxRetryDelay: maxRetryDelay}
	}
	var errs [10]error
	sub, who := c.cfg.Subscription, c.cfg.Credential
	c.raw, errs[0] = arm.NewClient("tradewind", "v1.0.0", who, &o)
	c.machines, errs[1] = armcompute.NewVirtualMachinesClient(sub, who, &o)
	c.usage, errs[2] = armcompute.NewUsageClient(sub, who, &o)
	c.skus, errs[3] = armcompute.NewResourceSKUsClient(sub, who, &o)
	c.resources, errs[4] = armresources.NewClient(sub, who, &o)
	c.groups, errs[5] = armresources.NewResourceGroupsClient(sub, who, &o)
	c.providers, errs[6] = armresources.NewProvidersClient(sub, who, &o)
	c.subscriptions, errs[7] = armsubscriptions.NewClient(who, &o)
	c.reserved, errs[8] = armcompute.NewCapacityReservationsClient(sub, who, &o)
	c.reservedGroups, errs[9] = armcompute.NewCapacityReservationGroupsClient(sub, who, &o)
	return errors.Join(errs[:]...)
}

// Name implements cloud.Cloud.
func (c *Cloud) Name() string { return Name }

// Regions returns the regions in which machines may be made.
func (c *Cloud) Regions() []string { return slices.Clone(c.cfg.Regions) }

// SKUs returns the client that lists a region's machine types, for refreshing the catalogue.
func (c *Cloud) SKUs() *armcompute.ResourceSKUsClient { return c.skus }

// Usage returns the client that lists a region's quotas.
func (c *Cloud) Usage() *armcompute.UsageClient { return c.usage }

// once disables the SDK's retries of a call. Before a retry, the caller checks the outcome.
func once(ctx context.Context) context.Context {
	return policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
}

// prefix begins all names of the deployment, and base begins those of a cluster. The names identify its machines in a
// resource group that others may use, too.
func (c *Cloud) prefix() string { return "tw-" + short(c.cfg.Deployment, 8) }

func (c *Cloud) base(cluster string) string {
	return c.prefix() + "-" + short(c.cfg.Deployment+"\x00"+cluster, 20)
}

func (c *Cloud) nameOf(cluster string, rank int) string {
	return fmt.Sprintf("%s-%d", c.base(cluster), rank)
}

func short(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:n]
}

// idOf returns the ID of a resource in the deployment's group.
func (c *Cloud) idOf(kind, name string) string {
	return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/%s/%s", c.cfg.Subscription, c.cfg.ResourceGroup,
		kind, name)
}

// zone returns the subscription's number for an offer's zone. The offer has the number ("2") or the physical zone
// (eastus-az3), which has another number in each subscription. It is empty if the offer is for the whole region.
func (c *Cloud) zone(ctx context.Context, o apitypes.Offer) (string, error) {
	if o.Zone == "" || len(o.Zone) == 1 {
		return o.Zone, nil
	}
	c.mu.Lock()
	known := c.zones[o.Region]
	c.mu.Unlock()
	if known == nil {
		all, err := c.locations(ctx)
		if err != nil {
			return "", err
		}
		c.mu.Lock()
		for name, l := range all {
			c.zones[name] = l
		}
		known = c.zones[o.Region]
		c.mu.Unlock()
	}
	logical, ok := known[strings.ToLower(o.Zone)]
	if !ok {
		return "", fail(cloud.Capacity, codeNoZone, "this subscription has no zone %s in %s", o.Zone, o.Region)
	}
	return logical, nil
}

// locations returns the regions of the subscription, with their zones: physical -> logical.
func (c *Cloud) locations(ctx context.Context) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	pages := c.subscriptions.NewListLocationsPager(c.cfg.Subscription, nil)
	for pages.More() {
		call, cancel := context.WithTimeout(ctx, readWithin)
		page, err := pages.NextPage(call)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, l := range page.Value {
			zones := map[string]string{}
			for _, z := range l.AvailabilityZoneMappings {
				zones[strings.ToLower(text(z.PhysicalZone))] = text(z.LogicalZone)
			}
			all[text(l.Name)] = zones
		}
	}
	return all, nil
}

// text returns the string that an SDK pointer points to; "" if it is nil.
func text[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}
