package kubernetes

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// grounds are what this process knows of a place beside what its API server says: what it has promised.
type grounds struct {
	sight sight
	// turn is held by who looks for room and promises it to a gang, so that no two gangs are promised the same.
	turn     chan struct{}
	promised map[string]promise // by cluster's label
	calls    chan struct{}      // those under way that make and release pods
}

// promise is room that a gang was found: its pods have been let go, and not all have a node yet.
type promise struct {
	shape Shape
	zone  string
	spot  bool
	pods  int
	grows bool // a pool has to grow for some of them
}

func newGrounds() *grounds {
	return &grounds{turn: make(chan struct{}, 1), promised: map[string]promise{},
		calls: make(chan struct{}, placeAtOnce)}
}

// growing says whether a pool has to grow for a gang that has been promised room: its pods may be given what another
// was promised, which then gets new nodes.
func (gr *grounds) growing() bool {
	gr.turn <- struct{}{}
	defer func() { <-gr.turn }()
	for _, p := range gr.promised {
		if p.grows {
			return true
		}
	}
	return false
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

// look is what nodes have, and how many pods of each cluster of the deployment's have one: by what Watch has heard,
// else from lists.
func (c *Cloud) look(ctx context.Context, p *Place) (nodes []Node, bound map[string]int, err error) {
	if nodes, bound, ok := c.grounds[p.Name].sight.look(c.cfg.Tolerations); ok {
		return nodes, bound, nil
	}
	of, _, err := p.listNodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	pods, err := p.listPods(ctx, metav1.NamespaceAll, metav1.ListOptions{
		FieldSelector: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed", Limit: listPage,
	})
	if apierrors.IsForbidden(err) {
		pods, err = p.pods(ctx, "")
	}
	if err != nil {
		return nil, nil, err
	}
	bound = map[string]int{}
	for i := range pods {
		if pods[i].Spec.NodeName != "" && pods[i].Labels[labelDeployment] == hash(c.cfg.Deployment) {
			bound[pods[i].Labels[labelCluster]]++
		}
	}
	all := make([]*corev1.Node, len(of))
	for i := range of {
		all[i] = &of[i]
	}
	return readNodes(all, usedBy(pods), c.cfg.Tolerations), bound, nil
}

// placing is where a gang goes.
type placing struct {
	arch  string
	grows bool // a pool has to grow for some
}

// room asks whether the pods that have no node yet fit, and promises the gang what it finds. It fails with Capacity
// where they do not fit and nothing can grow.
func (g *gang) room(ctx context.Context) (at placing, err error) {
	at.arch = "amd64"
	gr := g.c.grounds[g.place.Name]
	release, err := gr.take(ctx)
	if err != nil {
		return at, err
	}
	defer release()
	nodes, bound, err := g.c.look(ctx, g.place)
	if err != nil {
		return at, err
	}
	for i := range nodes {
		if g.suits(&nodes[i]) && nodes[i].Arch != "" {
			at.arch = nodes[i].Arch
			break
		}
	}
	if g.place.Gang.foreign() {
		return at, nil // whoever schedules gangs there knows whether there is room
	}
	own := hash(g.spec.Cluster)
	wanted := g.spec.Nodes - g.bound
	var more []Node
	now := g.fits(gr, bound, nodes, nil, wanted)
	fits := now
	if fits < wanted {
		if more, err = g.more(ctx, nodes, wanted); err != nil {
			return at, err
		}
		fits = g.fits(gr, bound, nodes, more, wanted)
	}
	if fits < wanted {
		return at, fail(cloud.Capacity, codeFull, "%d of %d pods of %g CPUs and %g GiB fit on the nodes of %s",
			fits+g.bound, g.spec.Nodes, g.shape.VCPU, g.shape.GiB, g.place.Name)
	}
	at.grows = now < wanted
	gr.promised[own] = promise{g.shape, g.spec.Offer.Zone, g.spec.Offer.Spot, g.spec.Nodes, at.grows}
	return at, nil
}

func (g *gang) suits(n *Node) bool { return n.suits(g.shape, g.spec.Offer.Zone, g.spec.Offer.Spot) }

// fits says how many of wanted pods fit on nodes and on what they could grow by, when all that has been promised to
// others is taken away.
func (g *gang) fits(gr *grounds, bound map[string]int, nodes, more []Node, wanted int) int {
	all := append(slices.Clone(nodes), more...)
	own := hash(g.spec.Cluster)
	for cluster, p := range gr.promised {
		if cluster != own {
			take(all, p.shape, p.zone, p.spot, p.pods-bound[cluster])
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
