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

	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// grounds are what this process knows of a place beside what its API server says: what it has promised.
type grounds struct {
	sight sight
	// turn is held by who looks for room and promises it to a gang, so that no two gangs are promised the same.
	turn     chan struct{}
	promised map[string]promise  // by cluster's label
	calls    chan struct{}       // those under way that make and release pods
	gate     *semaphore.Weighted // pods that have been let go and have no node yet

	mu      sync.Mutex     // of pending
	pending map[string]int // placeholders without a node, by the cluster that they are for
}

// promise is room that a gang was found: its pods have been let go, and not all have a node yet.
type promise struct {
	shape Shape
	zone  string
	spot  bool
	pods  int
	room  string // label of its placeholders

	// through is closed when its pods have nodes, or have had their time. It is nil of a gang that waits for new nodes.
	through chan struct{}
}

// left is how many of its pods have neither a node nor a placeholder that has one. What those take that have, nodes do
// not have free: both have to be known of one moment.
func (p *promise) left(cluster string, bound map[string]int) int {
	return max(0, p.pods-bound[cluster]-bound[p.room])
}

func newGrounds() *grounds {
	return &grounds{turn: make(chan struct{}, 1), promised: map[string]promise{},
		calls: make(chan struct{}, placeAtOnce), gate: semaphore.NewWeighted(bindingAtOnce),
		pending: map[string]int{}}
}

// waits notes how many of a cluster's placeholders have no node.
func (gr *grounds) waits(cluster string, n int) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if gr.pending[cluster] = n; n <= 0 {
		delete(gr.pending, cluster)
	}
}

// quiet says that no placeholder waits for a node.
func (gr *grounds) quiet() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return len(gr.pending) == 0
}

// call waits until fewer than placeAtOnce calls are under way.
func (gr *grounds) call() (done func()) {
	gr.calls <- struct{}{}
	return func() { <-gr.calls }
}

// take waits for its turn.
func (gr *grounds) take(ctx context.Context) (release func(), err error) {
	select {
	case gr.turn <- struct{}{}:
		return func() { <-gr.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forget is for a gang whose pods all have a node, or are withdrawn.
func (gr *grounds) forget(cluster string) {
	gr.turn <- struct{}{}
	delete(gr.promised, hash(cluster))
	<-gr.turn
}

// look is what nodes have, and how many pods of each cluster of the deployment's have one, and how many placeholders,
// by their labels: by what Watch has heard, else from lists.
//
// all says that everybody's pods are known, not the broker's alone.
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

// placing is where a gang goes.
type placing struct {
	arch string
	outlook
}

// outlook is what those pods of a gang have to hope for that have no node yet.
type outlook int

const (
	// full: there is no room for all of them, and none will come.
	full outlook = iota
	// roomy: what nodes have free is enough. Where the scheduler says otherwise it has looked before, or knows more.
	roomy
	// growing: pools that grow will make what is missing. It may be another gang's pods that they grow for: which gets
	// what is there now, and which new nodes, the scheduler decides.
	growing
)

// look says what there is to hope for by now.
func (g *gang) look(ctx context.Context, pods []corev1.Pod) (hope outlook, err error) {
	if g.place.Gang.own() || g.refusal(pods) != "" { // else it is held back by a queue, not by nodes
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
		// Others may have taken what the broker may not see; and another scheduler than the cluster's knows more.
		if hope == roomy && (!all || !g.place.Gang.own()) {
			hope = full
		}
	}
	if hope == full && g.place.scalingUp(ctx, pods) { // an autoscaler that nobody told the broker of
		hope = growing
	}
	return hope, nil
}

// patience is how long a gang waits while no other pod of it gets a node. A scheduler that has said nothing has not
// looked yet: one that is busy takes its time, and that is no word about room.
func (g *gang) patience(said string, hope outlook) time.Duration {
	within := g.c.cfg.BindWithin
	switch {
	case hope == growing:
		return g.c.cfg.GrowWithin
	case said == "" && g.place.Gang.own():
		return max(within, silentWithin)
	case hope == roomy && len(g.spec.Rules) == 0: // else it is a rule that nodes with room are against
		return max(within, againWithin)
	}
	return within
}

// room asks whether the pods that have no node yet fit, and promises the gang what it finds. It fails with Capacity
// where they do not fit and nothing can grow, unless somebody else binds gangs.
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
	if !g.place.Gang.own() {
		return at, nil // whoever schedules gangs there knows whether there is room
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
	if at.outlook == full && g.place.Gang.foreign() {
		return at, nil // it holds none of the room of others while it waits
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

// promise is what the gang is promised.
func (g *gang) promise() *promise {
	return &promise{
		shape: g.shape, zone: g.spec.Offer.Zone, spot: g.spec.Offer.Spot, pods: g.spec.Nodes,
		room: g.placeholderLabel(),
	}
}

// left is how many of the gang's pods are still to be placed.
func (g *gang) left(bound map[string]int) int { return g.promise().left(hash(g.spec.Cluster), bound) }

// outlook says what a gang has to hope for, and how many of the pods that have no node yet would fit, when all that has
// been promised to others is taken away. The turn is held.
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

// fits says how many of wanted pods fit on nodes and on what they could grow by, when all that has been promised to
// others is taken away.
func (g *gang) fits(gr *grounds, bound map[string]int, nodes, more []Node, wanted int) int {
	all := append(slices.Clone(nodes), more...)
	own := hash(g.spec.Cluster)
	for cluster, p := range gr.promised {
		if cluster != own {
			take(all, p.shape, p.zone, p.spot, p.left(cluster, bound))
		}
	}
	return take(all, g.shape, g.spec.Offer.Zone, g.spec.Offer.Spot, wanted)
}

// more are nodes that could come, enough for the gang and for what is promised to others.
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
