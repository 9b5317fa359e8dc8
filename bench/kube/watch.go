package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// clusterLabel is that by which the driver knows the pods of one gang.
const clusterLabel = "tradewind.dev/cluster"

// eye watches pods being bound, and how long gangs have some of their pods bound and others not.
type eye struct {
	mu    sync.Mutex
	gangs map[string]*seenGang
	// newFrom is the name of the first node that was not there from the beginning.
	newFrom string

	bound int
	last  time.Time // when the last was bound
	lost  int       // pods that went away with a node
}

type seenGang struct {
	// bound are pods, and whether they are on a node that was there from the beginning; pending are pods, and whether
	// the scheduler has found no node for them.
	bound, pending       map[string]bool
	held, grown, refused span
}

// span is the longest time that something was so.
type span struct {
	since   time.Time
	longest time.Duration
}

func (s *span) note(so bool, now time.Time) {
	switch {
	case so && s.since.IsZero():
		s.since = now
	case !so && !s.since.IsZero():
		s.longest, s.since = s.upTo(now), time.Time{}
	}
}

func (s *span) upTo(now time.Time) time.Duration {
	if s.since.IsZero() {
		return s.longest
	}
	return max(s.longest, now.Sub(s.since))
}

// look begins to watch; the watch ends with ctx.
func look(ctx context.Context, client kubernetes.Interface, newFrom string) (*eye, error) {
	e := &eye{newFrom: newFrom, gangs: map[string]*seenGang{}}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion,
		&cache.ListWatch{WatchFuncWithContext: client.CoreV1().Pods(namespace).Watch})
	if err != nil {
		return nil, err
	}
	go func() {
		defer events.Stop()
		for ev := range events.ResultChan() {
			if p, ok := ev.Object.(*corev1.Pod); ok {
				e.see(p, ev.Type == "DELETED", time.Now())
			}
		}
	}()
	return e, nil
}

func (e *eye) see(p *corev1.Pod, gone bool, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key, ours := p.Labels[clusterLabel]
	if !ours { // it waits in a gang's place
		return
	}
	g := e.gangs[key]
	if g == nil {
		g = &seenGang{bound: map[string]bool{}, pending: map[string]bool{}}
		e.gangs[key] = g
	}
	switch {
	case gone || p.DeletionTimestamp != nil:
		if _, had := g.bound[p.Name]; had {
			e.lost++
			e.bound--
		}
		delete(g.bound, p.Name)
		delete(g.pending, p.Name)
	case p.Spec.NodeName != "":
		if _, had := g.bound[p.Name]; !had {
			e.bound++
			e.last = now
		}
		g.bound[p.Name] = p.Spec.NodeName < e.newFrom
		delete(g.pending, p.Name)
	default:
		g.pending[p.Name] = unschedulable(p)
	}
	partly := len(g.bound) > 0 && len(g.pending) > 0
	held, refused := anyOf(g.bound), anyOf(g.pending)
	g.held.note(partly && held, now)
	g.grown.note(partly && !held, now)
	g.refused.note(partly && refused, now)
}

func anyOf(pods map[string]bool) bool {
	for _, so := range pods {
		if so {
			return true
		}
	}
	return false
}

// seen is what an eye has seen up to now.
type seen struct {
	bound, lost int       // pods
	last        time.Time // when the last was bound
	still       int       // gangs some of whose pods are bound, and others not
	// held is the longest that a gang was so, and held a node that was there from the beginning; grown the longest that
	// it held new ones alone, which had been made for it; refused the longest that the scheduler had found no node for
	// some of its pods meanwhile: it held room that was of no use to it.
	held, grown, refused time.Duration
	refusals             int // gangs of which that was so
}

func (e *eye) sum(now time.Time) seen {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := seen{bound: e.bound, lost: e.lost, last: e.last}
	for _, g := range e.gangs {
		s.held, s.grown = max(s.held, g.held.upTo(now)), max(s.grown, g.grown.upTo(now))
		if refused := g.refused.upTo(now); refused > 0 {
			s.refused = max(s.refused, refused)
			s.refusals++
		}
		if !g.held.since.IsZero() || !g.grown.since.IsZero() {
			s.still++
		}
	}
	return s
}
