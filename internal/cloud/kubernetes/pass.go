package kubernetes

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A scheduler binds one pod after the other. If the pods of ten gangs were released at the same time, the scheduler
// would alternate between the gangs, and each gang would hold nodes with some of its pods until all ten are bound. So
// gangs are released one after the other, and only enough at a time to keep the scheduler busy.
const (
	// bindingAtOnce is the maximum number of pods in a place that wait for the scheduler. A larger gang passes alone.
	bindingAtOnce = 128
	// passWithin is the maximum time for which a gang blocks others. A gang without nodes waits longer, but others
	// may then pass.
	passWithin = 5 * time.Second
)

// pass waits until the gangs before this one have passed, and releases its pods. The next gang passes when this one
// leaves, or after passWithin.
func (g *gang) pass(ctx context.Context) error {
	if err := g.enter(ctx); err != nil || g.place.Gang.boundByOthers() { // these pods have no gates of ours
		return err
	}
	return g.release(ctx)
}

// enter waits until the gang may pass. A gang that has entered does not wait again.
func (g *gang) enter(ctx context.Context) error {
	if g.entered != nil {
		return nil
	}
	gate, n := g.c.grounds[g.place.Name].gate, min(int64(g.spec.Nodes), bindingAtOnce)
	if g.place.Gang.boundByOthers() {
		n = 0 // its scheduler binds the whole gang at once
	}
	if err := gate.Acquire(ctx, n); err != nil {
		return err
	}
	done := sync.OnceFunc(func() {
		gate.Release(n)
		g.taken()
	})
	late := time.AfterFunc(passWithin, done)
	g.entered = func() {
		late.Stop()
		done()
	}
	return nil
}

// taken reports that the gang has taken its promised room, so that no other gang waits for it any more.
func (g *gang) taken() {
	if g.through != nil {
		g.through()
	}
}

// follow waits until the gangs that were promised room earlier have taken it. Otherwise this gang's placeholders
// could take their room.
func (g *gang) follow(ctx context.Context) error {
	for _, through := range g.before {
		select {
		case <-through:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// leave lets the next gang pass: this one has its nodes, or has failed.
func (g *gang) leave() {
	if g.entered != nil {
		g.entered()
	}
	g.taken()
}

// ungate is the patch that removes the gates.
var ungate = []byte(`{"spec":{"schedulingGates":null}}`)

// release removes the gates of the gang's pods.
func (g *gang) release(ctx context.Context) error {
	return driver.Each(g.spec.Nodes, callsAtOnce, func(rank int) error {
		name := g.c.podName(g.spec.Cluster, rank)
		defer g.c.grounds[g.place.Name].call()()
		_, err := g.place.Client.Pods(g.place.Namespace).Patch(ctx, name, types.MergePatchType, ungate,
			metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return fail(cloud.Transient, driver.CodeLost, "pod %s of cluster %s does not exist", name, g.spec.Cluster)
		}
		return err
	})
}
