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

// clusterLabel is the label by which the driver identifies the pods of one gang.
const clusterLabel = "tradewind.dev/cluster"

// podWatch watches pods being bound, and records how long gangs are partly bound.
type podWatch struct {
	mu    sync.Mutex
	gangs map[string]*seenGang
	// newFrom is the name of the first node that was added during the run.
	newFrom string

	bound int
	last  time.Time // when the last pod was bound
	lost  int       // pods that disappeared with a node
}

type seenGang struct {
	// bound maps bound pods to whether their node existed at the start; pending maps waiting pods to whether the
	// scheduler found no node for them.
	bound, pending       map[string]bool
	held, grown, refused span
}

// span is the longest time that a condition held.
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

// watchPods starts watching until ctx ends.
func watchPods(ctx context.Context, client kubernetes.Interface, newFrom string) (*podWatch, error) {
	e := &podWatch{newFrom: newFrom, gangs: map[string]*seenGang{}}
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
				e.observe(p, ev.Type == "DELETED", time.Now())
			}
		}
	}()
	return e, nil
}

func (e *podWatch) observe(p *corev1.Pod, gone bool, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key, ours := p.Labels[clusterLabel]
	if !ours { // a placeholder pod
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

// seen is a summary of what a podWatch has recorded.
type seen struct {
	bound, lost int       // pods
	last        time.Time // when the last pod was bound
	still       int       // gangs that are partly bound
	// held is the longest time that a gang was partly bound and held a node that existed at the start; grown the
	// longest time that it held only new nodes, which were added for it; refused the longest time that the scheduler
	// meanwhile found no node for some of its pods, so that it held useless capacity.
	held, grown, refused time.Duration
	refusals             int // number of such gangs
}

func (e *podWatch) sum(now time.Time) seen {
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
