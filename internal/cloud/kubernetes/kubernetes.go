package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Name is the catalogue's name of this cloud.
const Name = "kubernetes"

// Place is one Kubernetes cluster.
type Place struct {
	// Name is the offers' region: the context's name, with "-" for characters that a name cannot have.
	Name string
	// Client calls the API server. Dynamic is for custom resources, which only some clusters have; it may be nil.
	Client  Client
	Dynamic dynamic.Interface
	// Namespace is the namespace in which pods are created. It must exist.
	Namespace string
	// Gang states how gangs are bound there.
	Gang Gang
	// Pools are node pools that can grow, in addition to Karpenter's, which are read from the cluster.
	Pools []Pool
}

// Pool is a pool of nodes that grows when pods wait.
type Pool struct {
	Node
	// Most is the maximum number of nodes; 0 is any number.
	Most int `json:"most,omitempty"`
}

// Config is the driver's configuration. Deployment, Places and Agents are required.
type Config struct {
	// Deployment is the name in the labels of all pods. The driver finds and terminates only pods with these labels.
	Deployment string
	Places     []Place
	Agents     driver.Agents
	// Environment is added to the environment of agents.
	Environment map[string]string
	// Image is the image of the container that fetches the agent, and of tasks that name no image. It must contain
	// bash, curl and sha256sum. DefaultImage when empty.
	Image string
	// PullSecrets are Secrets of the places' namespaces with the logins of registries.
	PullSecrets []string
	// Tolerations of pods. Nodes with taints that these do not tolerate are not used.
	Tolerations []corev1.Toleration
	// AsRoot lets tasks run as root, which the "restricted" Pod Security Standard forbids.
	AsRoot bool
	Graves driver.Graves
	// Audience is the broker's address, for which pods get a token that proves their identity; empty means that they
	// get none.
	Audience string
	// Grace is the time that a pod has to end after the request to end; 0 means 2 min.
	Grace time.Duration
	// StartWithin is the time for which a launch waits for its containers to start, to find out whether the images
	// can be pulled; 0 means 30 s.
	StartWithin time.Duration
	// BindWithin is the time for which a launch waits for pods to be bound if no pool can grow, and GrowWithin if one
	// can; 0 means 10 s and 5 min. LookEvery is the interval of checks meanwhile; 0 means 250 ms.
	BindWithin, GrowWithin, LookEvery time.Duration
	Log                               *slog.Logger
}

// DefaultImage contains bash, curl and sha256sum.
const DefaultImage = "docker.io/library/buildpack-deps:bookworm-curl"

// Defaults, and time limits of calls.
const (
	grace       = 2 * time.Minute
	bindWithin  = 10 * time.Second
	growWithin  = 5 * time.Minute
	startWithin = 30 * time.Second
	lookEvery   = 250 * time.Millisecond
	undoWithin  = 30 * time.Second
	// silentWithin is the maximum time until a scheduler first tries a pod.
	silentWithin = 2 * time.Minute
	// againWithin is the maximum time until the scheduler tries again once there is room. It waits up to ten seconds
	// after a failure (kube-scheduler's podMaxBackoffSeconds), and tries other pods first.
	againWithin = time.Minute
)

// Cloud is the Kubernetes clusters of a deployment. It implements cloud.Cloud and driver.Checker.
type Cloud struct {
	cfg    Config
	log    *slog.Logger
	graves driver.Graves
	locks  driver.Locks

	grounds map[string]*placeState // by place

	mu    sync.Mutex
	where map[string]string // the places of clusters launched by this process
	gone  map[string]bool   // clusters whose launch failed; the deletion of their pods causes no notice
}

var (
	_ cloud.Cloud    = (*Cloud)(nil)
	_ driver.Checker = (*Cloud)(nil)
)

// New makes the driver. It makes no calls.
func New(cfg Config) *Cloud {
	for _, d := range []struct {
		of *time.Duration
		or time.Duration
	}{
		{&cfg.Grace, grace}, {&cfg.BindWithin, bindWithin}, {&cfg.GrowWithin, growWithin}, {&cfg.LookEvery, lookEvery},
		{&cfg.StartWithin, startWithin},
	} {
		if *d.of == 0 {
			*d.of = d.or
		}
	}
	if cfg.Image == "" {
		cfg.Image = DefaultImage
	}
	c := &Cloud{cfg: cfg, log: cfg.Log, graves: cfg.Graves, where: map[string]string{},
		gone: map[string]bool{}, grounds: map[string]*placeState{}}
	for i := range cfg.Places {
		c.grounds[cfg.Places[i].Name] = newGrounds()
	}
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

// PlaceName returns the region's name for a context's name.
func PlaceName(context string) string { return strings.Trim(plainName(context), "-") }

// place finds a place by its name.
func (c *Cloud) place(name string) (*Place, error) {
	i := slices.IndexFunc(c.cfg.Places, func(p Place) bool { return p.Name == name })
	if i < 0 {
		var known []string
		for _, p := range c.cfg.Places {
			known = append(known, p.Name)
		}
		return nil, cloud.Errorf(
			Name,
			cloud.Quota,
			"NoSuchContext",
			"%q is not one of this broker's clusters: %s",
			name,
			strings.Join(known, ", "),
		)
	}
	return &c.cfg.Places[i], nil
}

// places returns the places in which a cluster may be: the place in which this process launched it or, if that is
// unknown, all places.
func (c *Cloud) places(cluster string) []*Place {
	c.mu.Lock()
	name := c.where[cluster]
	c.mu.Unlock()
	var all []*Place
	for i := range c.cfg.Places {
		if p := &c.cfg.Places[i]; name == "" || p.Name == name {
			all = append(all, p)
		}
	}
	return all
}

// maxKnown is the maximum number of remembered clusters; the maps only save calls.
const maxKnown = 10_000

func (c *Cloud) launchedAt(cluster, place string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.where) >= maxKnown {
		clear(c.where)
	}
	c.where[cluster] = place
	delete(c.gone, cluster)
}

// withdrawn records that the pods of a launch are being removed.
func (c *Cloud) withdrawn(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.gone) >= maxKnown {
		clear(c.gone)
	}
	c.gone[cluster] = true
}

func (c *Cloud) isWithdrawn(cluster string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone[cluster]
}

// Labels and annotations of the driver's objects. A label's value must be short and plain, so names are hashed.
const (
	labelDeployment = "tradewind.dev/deployment"
	labelCluster    = "tradewind.dev/cluster"
	labelRank       = "tradewind.dev/rank"
	noteCluster     = "tradewind.dev/cluster-name"
	noteOffer       = "tradewind.dev/offer"
	gate            = "tradewind.dev/whole-gang"
)

// hash returns the hexadecimal hash of a name, as a label's value.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// podName is the name of a rank's pod. It differs between deployments in the same namespace.
func (c *Cloud) podName(cluster string, rank int) string {
	return fmt.Sprintf("%s-%d", c.groupName(cluster), rank)
}

// groupName begins the names of a cluster's pods, and is the name of its Secret.
func (c *Cloud) groupName(cluster string) string {
	return "tw-" + hash(c.cfg.Deployment+"\x00"+cluster)
}

// selector selects the pods of a cluster; all pods of the deployment if cluster is empty.
func (c *Cloud) selector(cluster string) string {
	s := labelDeployment + "=" + hash(c.cfg.Deployment)
	if cluster != "" {
		s += "," + labelCluster + "=" + hash(cluster)
	}
	return s
}

// each calls f for all places in parallel, and joins the errors.
func each(places []*Place, f func(*Place) error) error {
	return driver.Each(len(places), max(len(places), 1), func(i int) error { return f(places[i]) })
}
