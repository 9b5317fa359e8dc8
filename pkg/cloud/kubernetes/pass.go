package kubernetes

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// A scheduler binds one pod after the other. Were the pods of ten gangs let go at once, it would take them in turn, and
// each gang would hold nodes with some of its pods until all ten are through. So gangs pass one after the other, and
// only as many at once as keep the scheduler busy.
const (
	// bindingAtOnce is how many pods of a place wait for the scheduler at once. A larger gang passes alone.
	bindingAtOnce = 128
	// passWithin is how long a gang keeps others from passing: one that the scheduler finds no node for waits longer.
	passWithin = 5 * time.Second
)

// pass waits until the gang may go, and lets its pods go. The next one does when this one leaves, or has had
// passWithin.
func (g *gang) pass(ctx context.Context) error {
	if err := g.enter(ctx); err != nil || g.place.Gang.foreign() { // others' pods have not been held back
		return err
	}
	return g.release(ctx)
}

// enter waits until the gang may go. One that has entered does not wait again.
func (g *gang) enter(ctx context.Context) error {
	if g.entered != nil {
		return nil
	}
	gate, n := g.c.grounds[g.place.Name].gate, min(int64(g.spec.Nodes), bindingAtOnce)
	if g.place.Gang.foreign() {
		n = 0 // its scheduler binds it at once
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

// taken says that nobody has to wait for the gang to take what it was promised.
func (g *gang) taken() {
	if g.through != nil {
		g.through()
	}
}

// follow waits until those that were promised room before have taken it. Placeholders that came earlier would be in
// their places.
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

// leave says that the gang has its nodes, or is given up.
func (g *gang) leave() {
	if g.entered != nil {
		g.entered()
	}
	g.taken()
}

// ungate takes the gates away.
var ungate = []byte(`{"spec":{"schedulingGates":null}}`)

// release lets the pods go.
func (g *gang) release(ctx context.Context) error {
	return driver.Each(g.spec.Nodes, callsAtOnce, func(rank int) error {
		name := g.c.podName(g.spec.Cluster, rank)
		defer g.c.grounds[g.place.Name].call()()
		_, err := g.place.Client.CoreV1().Pods(g.place.Namespace).Patch(ctx, name, types.MergePatchType, ungate,
			metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return fail(cloud.Transient, driver.CodeLost, "pod %s of cluster %s is gone", name, g.spec.Cluster)
		}
		return err
	})
}
