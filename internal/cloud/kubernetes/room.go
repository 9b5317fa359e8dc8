package kubernetes

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// placeState is this process's knowledge of a place in addition to the API server's reports: the room that it has
// promised.
type placeState struct {
	sight watchCache
	// turn is held while a gang searches for room and gets a promise of it, so that two gangs are not promised the
	// same room.
	turn     chan struct{}
	promised map[string]promise  // by cluster's label
	calls    chan struct{}       // calls in progress that create and release pods
	gate     *semaphore.Weighted // released pods that have no node yet

	mu      sync.Mutex     // guards pending
	pending map[string]int // placeholders without a node, by their cluster
}

// promise is room that was found for a gang whose pods do not all have a node yet.
type promise struct {
	shape Shape
	zone  string
	spot  bool
	pods  int
	room  string // label of its placeholders

	// through is closed when the gang's pods have nodes, or passWithin has passed. It is nil for a gang that waits
	// for new nodes.
	through chan struct{}
}

// left returns the number of its pods that have neither a node nor a placeholder with a node. Pods and placeholders
// with nodes already reduce the nodes' free room, so bound and the nodes must be from the same moment.
func (p *promise) left(cluster string, bound map[string]int) int {
	return max(0, p.pods-bound[cluster]-bound[p.room])
}

func newGrounds() *placeState {
	return &placeState{turn: make(chan struct{}, 1), promised: map[string]promise{},
		calls: make(chan struct{}, placeAtOnce), gate: semaphore.NewWeighted(bindingAtOnce),
		pending: map[string]int{}}
}

// waits records how many of a cluster's placeholders have no node.
func (gr *placeState) waits(cluster string, n int) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if gr.pending[cluster] = n; n <= 0 {
		delete(gr.pending, cluster)
	}
}

// quiet reports whether no placeholder waits for a node.
func (gr *placeState) quiet() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return len(gr.pending) == 0
}

// call waits until fewer than placeAtOnce calls are in progress.
func (gr *placeState) call() (done func()) {
	gr.calls <- struct{}{}
	return func() { <-gr.calls }
}

// take waits for the turn.
func (gr *placeState) take(ctx context.Context) (release func(), err error) {
	select {
	case gr.turn <- struct{}{}:
		return func() { <-gr.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forget removes the promise of a gang whose pods all have a node, or are withdrawn.
func (gr *placeState) forget(cluster string) {
	gr.turn <- struct{}{}
	delete(gr.promised, hash(cluster))
	<-gr.turn
}

// look returns the free room of the nodes. It also returns, by label, the number of pods of each of the deployment's
// clusters, and the number of placeholders, that have a node. The data is from Watch if possible, and otherwise from
// lists.
//
// all is true if the pods of all users are known, not only the broker's.
func (c *Cloud) look(ctx context.Context, p *Place) (nodes []Node, bound map[string]int, all bool, err error) {
	if nodes, bound, all, ok := c.grounds[p.Name].sight.look(c.cfg.Tolerations); ok {
		return nodes, bound, all, nil
	}
	of, _, err := p.listNodes(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	all = true
	pods, err := p.listPods(ctx, metav1.NamespaceAll, metav1.ListOptions{
		FieldSelector: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed", Limit: listPage,
	})
	if apierrors.IsForbidden(err) {
		all = false
		pods, err = p.pods(ctx, "")
	}
	if err != nil {
		return nil, nil, false, err
	}
	bound = map[string]int{}
	deployment := hash(c.cfg.Deployment)
	for i := range pods {
		if label, ours := gangOf(&pods[i], deployment); ours && placed(&pods[i]) {
			bound[label]++
		}
	}
	there := make([]*corev1.Node, len(of))
	for i := range of {
		there[i] = &of[i]
	}
	return readNodes(there, usedBy(pods), c.cfg.Tolerations), bound, all, nil
}

// placing is the result of looking for room for a gang.
type placing struct {
	arch string
	outlook
}

// outlook is the prospect of the pods of a gang that have no node yet.
type outlook int

const (
	// full: there is not enough room for all pods, and no more will come.
	full outlook = iota
	// roomy: the nodes have enough room. If the scheduler reports otherwise, it checked earlier or has more
	// information.
	roomy
	// growing: growing pools will add the missing room. They may grow for another gang; the scheduler decides which
	// gang gets the existing room, and which the new nodes.
	growing
)

// look returns the current outlook.
func (g *gang) look(ctx context.Context, pods []corev1.Pod) (hope outlook, err error) {
	if g.place.Gang.usesClusterScheduler() || g.refusal(pods) != "" { // otherwise a queue holds it back, not the nodes
		release, err := g.c.grounds[g.place.Name].take(ctx)
		if err != nil {
			return full, err
		}
		nodes, bound, all, err := g.c.look(ctx, g.place)
		if err == nil {
			hope, _, err = g.outlook(ctx, nodes, bound)
		}
		release()
		if err != nil {
			return full, err
		}
		// Other users may have taken room that the broker cannot see, and a scheduler other than the cluster's may
		// know more.
		if hope == roomy && (!all || !g.place.Gang.usesClusterScheduler()) {
			hope = full
		}
	}
	if hope == full && g.place.scalingUp(ctx, pods) { // an autoscaler that is not in the settings
		hope = growing
	}
	return hope, nil
}

// patience returns the time for which a gang waits while no further pod of it gets a node. If a scheduler gives no
// reason, it has not tried the pods yet. It may be busy, which does not mean that there is no room.
func (g *gang) patience(said string, hope outlook) time.Duration {
	within := g.c.cfg.BindWithin
	switch {
	case hope == growing:
		return g.c.cfg.GrowWithin
	case said == "" && g.place.Gang.usesClusterScheduler():
		return max(within, silentWithin)
	case hope == roomy && len(g.spec.Rules) == 0: // with rules, nodes with room may be forbidden
		return max(within, againWithin)
	}
	return within
}

// room checks whether the pods without a node fit, and promises the gang the room for them. If they do not fit and no
// pool can grow, room fails with Capacity, unless another component binds gangs.
func (g *gang) room(ctx context.Context) (at placing, err error) {
	at.arch = "amd64"
	gr := g.c.grounds[g.place.Name]
	release, err := gr.take(ctx)
	if err != nil {
		return at, err
	}
	defer release()
	nodes, bound, _, err := g.c.look(ctx, g.place)
	if err != nil {
		return at, err
	}
	for i := range nodes {
		if g.suits(&nodes[i]) && nodes[i].Arch != "" {
			at.arch = nodes[i].Arch
			break
		}
	}
	if !g.place.Gang.usesClusterScheduler() {
		return at, nil // the gang scheduler there knows whether there is room
	}
	for _, p := range gr.promised {
		if p.through != nil {
			g.before = append(g.before, p.through)
		}
	}
	fits := 0
	if at.outlook, fits, err = g.outlook(ctx, nodes, bound); err != nil {
		return at, err
	}
	if at.outlook == full && g.place.Gang.boundByOthers() {
		return at, nil // it occupies no room of others while it waits
	}
	if at.outlook == full {
		return at, fail(cloud.Capacity, codeFull, "%d of %d pods of %g CPUs and %s GiB fit on the nodes of %s",
			g.spec.Nodes-g.left(bound)+fits, g.spec.Nodes, g.shape.VCPU, fault.Number(g.shape.GiB), g.place.Name)
	}
	p := g.promise()
	if at.outlook == roomy {
		p.through = make(chan struct{})
		g.through = sync.OnceFunc(func() { close(p.through) })
	}
	gr.promised[hash(g.spec.Cluster)] = *p
	return at, nil
}

// promise returns the promise for the gang.
func (g *gang) promise() *promise {
	return &promise{
		shape: g.shape, zone: g.spec.Offer.Zone, spot: g.spec.Offer.Spot, pods: g.spec.Nodes,
		room: g.placeholderLabel(),
	}
}

// left returns the number of the gang's pods that still need a node.
func (g *gang) left(bound map[string]int) int { return g.promise().left(hash(g.spec.Cluster), bound) }

// outlook returns the prospect of a gang, and the number of its pods without a node that would fit, after deducting
// the room promised to others. The caller holds the turn.
func (g *gang) outlook(ctx context.Context, nodes []Node, bound map[string]int) (hope outlook, fits int, err error) {
	gr, wanted := g.c.grounds[g.place.Name], g.left(bound)
	if fits = g.fits(gr, bound, nodes, nil, wanted); fits >= wanted {
		return roomy, fits, nil
	}
	more, err := g.more(ctx, nodes, wanted)
	if err != nil {
		return full, fits, err
	}
	if fits = g.fits(gr, bound, nodes, more, wanted); fits >= wanted {
		return growing, fits, nil
	}
	return full, fits, nil
}

func (g *gang) suits(n *Node) bool { return n.suits(g.shape, g.spec.Offer.Zone, g.spec.Offer.Spot) }

// fits returns the number of wanted pods that fit on the nodes and on those that could be added, after deducting the
// room promised to others.
func (g *gang) fits(gr *placeState, bound map[string]int, nodes, more []Node, wanted int) int {
	all := append(slices.Clone(nodes), more...)
	own := hash(g.spec.Cluster)
	for cluster, p := range gr.promised {
		if cluster != own {
			take(all, p.shape, p.zone, p.spot, p.left(cluster, bound))
		}
	}
	return take(all, g.shape, g.spec.Offer.Zone, g.spec.Offer.Spot, wanted)
}

// more returns nodes that could be added, enough for the gang and for the promises to other gangs.
func (g *gang) more(ctx context.Context, nodes []Node, wanted int) (more []Node, err error) {
	pools, err := g.place.growing(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range g.c.grounds[g.place.Name].promised {
		wanted += p.pods
	}
	for _, p := range pools {
		if !p.suits(g.shape, g.spec.Offer.Zone, g.spec.Offer.Spot) {
			continue
		}
		there := 0
		for i := range nodes {
			if nodes[i].Type == p.Type && nodes[i].Spot == p.Spot && nodes[i].Part == p.Part {
				there++
			}
		}
		node := p.Node
		node.Free = node.Whole
		for n := there; n < there+wanted && (p.Most == 0 || n < p.Most); n++ {
			more = append(more, node)
		}
	}
	return more, nil
}
