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
	"k8s.io/client-go/kubernetes"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Name is the catalogue's name of this cloud.
const Name = "kubernetes"

// Place is one Kubernetes cluster.
type Place struct {
	// Name is the offers' region: the context's name, with "-" for what a name cannot have.
	Name string
	// Client speaks to the API server, Dynamic as well, for what only some clusters know; Dynamic may be nil.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Namespace is where pods are made. It has to be there.
	Namespace string
	// Gang is who binds gangs there.
	Gang Gang
	// Pools are node pools that could grow, beside Karpenter's, which are read from the cluster.
	Pools []Pool
}

// Pool is a pool of nodes that grows when pods wait.
type Pool struct {
	Node
	// Most is how many nodes it can have; 0 is any number.
	Most int `json:"most,omitempty"`
}

// Config is what the driver needs to know. Deployment, Places and Agents are required.
type Config struct {
	// Deployment is what all pods are labelled with, and all that is seen and terminated.
	Deployment string
	Places     []Place
	Agents     driver.Agents
	// Environment is put in the environment of agents.
	Environment map[string]string
	// Image is what the agent is fetched in, and what tasks without an image of their own run in: bash, curl and
	// sha256sum have to be in it. DefaultImage when empty.
	Image string
	// PullSecrets are Secrets of the places' namespaces with the logins of registries.
	PullSecrets []string
	// Tolerations of pods: nodes with other taints are not bought on.
	Tolerations []corev1.Toleration
	// AsRoot lets tasks run as root, which the "restricted" Pod Security Standard forbids.
	AsRoot bool
	Graves driver.Graves
	// Audience is the broker's address, for which pods get a token that proves which one calls; empty is none.
	Audience string
	// Grace is how long a pod has between the word that it is to end and its end; 2 min when 0.
	Grace time.Duration
	// StartWithin is how long a launch waits for its containers to start, to hear of images that cannot be had; 30 s
	// when 0.
	StartWithin time.Duration
	// BindWithin is how long pods may take to be bound where nothing can grow, GrowWithin where something can; 10 s and
	// 5 min when 0. LookEvery is how often they are looked at meanwhile; 250 ms when 0.
	BindWithin, GrowWithin, LookEvery time.Duration
	Log                               *slog.Logger
}

// DefaultImage has bash, curl and sha256sum.
const DefaultImage = "docker.io/library/buildpack-deps:bookworm-curl"

// Defaults, and the times that calls may take.
const (
	grace       = 2 * time.Minute
	bindWithin  = 10 * time.Second
	growWithin  = 5 * time.Minute
	startWithin = 30 * time.Second
	lookEvery   = 250 * time.Millisecond
	undoWithin  = 30 * time.Second
	// silentWithin is how long a scheduler may take to look at a pod for the first time.
	silentWithin = 2 * time.Minute
	// againWithin is how long it may take to look again when there is room by now: it pauses ten seconds after it has
	// found none (kube-scheduler's podMaxBackoffSeconds), and looks at others first.
	againWithin = time.Minute
)

// Cloud is the Kubernetes clusters of a deployment as the broker sees them. It implements cloud.Cloud and
// driver.Checker.
type Cloud struct {
	cfg    Config
	log    *slog.Logger
	graves driver.Graves
	locks  driver.Locks

	grounds map[string]*grounds // by place

	mu    sync.Mutex
	where map[string]string // the place of a cluster that this process has launched
	gone  map[string]bool   // clusters whose launch has failed, and whose pods go: no news to anybody
}

var (
	_ cloud.Cloud    = (*Cloud)(nil)
	_ driver.Checker = (*Cloud)(nil)
)

// New makes the driver. It calls nobody.
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
		gone: map[string]bool{}, grounds: map[string]*grounds{}}
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

// PlaceName makes a region's name of a context's.
func PlaceName(context string) string { return strings.Trim(plainName(context), "-") }

// place finds a place by its name.
func (c *Cloud) place(name string) (*Place, error) {
	i := slices.IndexFunc(c.cfg.Places, func(p Place) bool { return p.Name == name })
	if i < 0 {
		var known []string
		for _, p := range c.cfg.Places {
			known = append(known, p.Name)
		}
		return nil, cloud.Errorf(Name, cloud.Quota, "NoSuchContext", "%q is none of this broker's clusters: %s", name,
			strings.Join(known, ", "))
	}
	return &c.cfg.Places[i], nil
}

// places are where a cluster may be: where this process has launched it, else anywhere.
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

// maxKnown bounds what is remembered of clusters: it only saves calls.
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

// withdrawn notes that what a launch has made is removed.
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

// Labels and annotations of what is made. A label's value is short and plain, so names are hashed into it.
const (
	labelDeployment = "tradewind.dev/deployment"
	labelCluster    = "tradewind.dev/cluster"
	labelRank       = "tradewind.dev/rank"
	noteCluster     = "tradewind.dev/cluster-name"
	noteOffer       = "tradewind.dev/offer"
	gate            = "tradewind.dev/whole-gang"
)

// hash is a name as a label's value: hexadecimal, and no other's.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// podName is that of a rank. Two deployments in one namespace have different ones.
func (c *Cloud) podName(cluster string, rank int) string {
	return fmt.Sprintf("%s-%d", c.groupName(cluster), rank)
}

// groupName is what the names of a cluster's pods begin with, and that of its Secret.
func (c *Cloud) groupName(cluster string) string {
	return "tw-" + hash(c.cfg.Deployment+"\x00"+cluster)
}

// selector finds the pods of a cluster, or all of the deployment's where it is empty.
func (c *Cloud) selector(cluster string) string {
	s := labelDeployment + "=" + hash(c.cfg.Deployment)
	if cluster != "" {
		s += "," + labelCluster + "=" + hash(cluster)
	}
	return s
}

// each calls f for every place, at once, and joins the failures.
func each(places []*Place, f func(*Place) error) error {
	return driver.Each(len(places), max(len(places), 1), func(i int) error { return f(places[i]) })
}
