package kubernetes

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// leavingTaints are the taints of nodes that are about to be removed.
var leavingTaints = map[string]bool{
	"karpenter.sh/disrupted": true, "karpenter.sh/disruption": true, "ToBeDeletedByClusterAutoscaler": true,
	"aws-node-termination-handler/spot-itn": true, "aws-node-termination-handler/rebalance-recommendation": true,
	"cloud.google.com/impending-node-termination": true, "node.kubernetes.io/out-of-service": true,
}

// watchAgain is the pause before Watch starts again after a watch has ended.
const watchAgain = time.Second

// Watch reports, until ctx ends, pods of the deployment that are about to be interrupted or were interrupted. It
// derives this from the API servers' reports about the pods and their nodes. A notice may come twice. If an API
// server is down, Watch retries until it answers, and then reports the interruptions in the meantime.
func (c *Cloud) Watch(ctx context.Context, tell func(context.Context, cloud.Notice)) {
	var wg sync.WaitGroup
	for i := range c.cfg.Places {
		w := &watcher{c: c, place: &c.cfg.Places[i], tell: tell}
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
}

type watcher struct {
	c     *Cloud
	place *Place
	tell  func(context.Context, cloud.Notice)
	pods  map[string]*corev1.Pod // by name
	gone  map[string]bool        // nodes that are about to go
}

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.follow(ctx); err != nil && ctx.Err() == nil {
			w.c.log.Debug("cannot watch pods", "place", w.place.Name, "err", err)
		}
		if clock.Pause(ctx, watchAgain) != nil {
			return
		}
	}
}

// follow lists pods and nodes, and reports changes from then on, until a watch ends.
func (w *watcher) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	core := w.place.Client
	nodes, version, err := w.place.listNodes(ctx)
	if err != nil {
		return err
	}
	nodeEvents, err := resumingWatch(ctx, version, core.Nodes().Watch)
	if err != nil {
		return err
	}
	defer nodeEvents.Stop()
	pods, podEvents, sees, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer podEvents.Stop()
	before := w.pods
	w.pods, w.gone = map[string]*corev1.Pod{}, map[string]bool{}
	sight := &w.c.grounds[w.place.Name].sight
	sight.begin(nodes, pods, sees.whole, sees.all, hash(w.c.cfg.Deployment))
	defer sight.end()
	for i := range nodes {
		w.node(ctx, &nodes[i])
	}
	for i := range pods {
		if w.ours(&pods[i]) {
			w.pod(ctx, &pods[i])
		}
	}
	nodes, pods = nil, nil
	for name, p := range before { // pods that disappeared while the API server was down
		if now := w.pods[name]; now == nil || now.UID != p.UID {
			w.taken(ctx, p)
		}
	}
	return w.changes(ctx, podEvents, nodeEvents)
}

// coverage is the set of pods that a watch reports. all means the pods of all namespaces. whole means every pod that a
// list call would return, so that lists are unnecessary.
type coverage struct{ whole, all bool }

// begin lists and watches the pods of all namespaces if the broker has that right, and otherwise those of its
// namespace. With a watch, launches need no lists to find the free resources of nodes.
func (w *watcher) begin(ctx context.Context) (pods []corev1.Pod, events watch.Interface, s coverage, err error) {
	for _, namespace := range []string{metav1.NamespaceAll, w.place.Namespace} {
		var version string
		pods, version, err = w.place.podsAt(ctx, namespace, metav1.ListOptions{Limit: listPage})
		s.all = err == nil && namespace == metav1.NamespaceAll
		s.whole = s.whole || s.all || apierrors.IsForbidden(err)
		if err == nil {
			events, err = w.watchPods(ctx, namespace, version)
			s.whole = s.whole && !apierrors.IsForbidden(err)
		}
		if !apierrors.IsForbidden(err) {
			return pods, events, s, err
		}
	}
	return nil, nil, coverage{}, err
}

// watchPods watches pods from a version of their list on. A first watch checks whether the broker has the right.
func (w *watcher) watchPods(ctx context.Context, namespace, version string) (watch.Interface, error) {
	of := w.place.Client.Pods(namespace)
	may, err := of.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return nil, err
	}
	may.Stop()
	return resumingWatch(ctx, version, of.Watch)
}

// resumingWatch returns a watch that resumes at the same version when the API server ends it, as a busy server does.
// A new list of ten thousand pods would make the server busier.
func resumingWatch(ctx context.Context, version string,
	from func(context.Context, metav1.ListOptions) (watch.Interface, error),
) (watch.Interface, error) {
	return watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: from})
}

// ours reports whether a pod belongs to the deployment and is in the place's namespace.
func (w *watcher) ours(p *corev1.Pod) bool {
	return p.Namespace == w.place.Namespace && p.Labels[labelDeployment] == hash(w.c.cfg.Deployment)
}

func (w *watcher) changes(ctx context.Context, pods, nodes watch.Interface) error {
	sight, deployment := &w.c.grounds[w.place.Name].sight, hash(w.c.cfg.Deployment)
	for {
		select {
		case e, open := <-pods.ResultChan():
			p, is := e.Object.(*corev1.Pod)
			if !open || !is && e.Type == watch.Error {
				return nil
			}
			if !is {
				continue
			}
			there := e.Type != watch.Deleted
			if sight.pod(p, there, deployment); !w.ours(p) {
				continue
			}
			if there {
				w.pod(ctx, p)
			} else {
				delete(w.pods, p.Name)
				w.taken(ctx, p)
			}
		case e, open := <-nodes.ResultChan():
			n, is := e.Object.(*corev1.Node)
			if !open || !is && e.Type == watch.Error {
				return nil
			}
			if !is {
				continue
			}
			there := e.Type != watch.Deleted
			if sight.node(n, there); there {
				w.node(ctx, n)
			} else {
				w.leaving(ctx, n.Name)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pod records a pod, and reports it if it is about to end without a request by this driver.
func (w *watcher) pod(ctx context.Context, p *corev1.Pod) {
	w.pods[p.Name] = slimPod(p)
	target := condition(p, corev1.DisruptionTarget)
	switch {
	case p.Status.Phase == corev1.PodSucceeded, p.Status.Phase == corev1.PodFailed:
	case p.DeletionTimestamp != nil: // the time when it will be gone
		w.warn(ctx, p, p.DeletionTimestamp.Time)
	case target != nil && target.Status == corev1.ConditionTrue, w.gone[p.Spec.NodeName]:
		w.warn(ctx, p, time.Now().Add(w.c.cfg.Grace))
	}
}

// node reports the pods of a node that is about to be removed: cordoned, as before a drain, or tainted.
func (w *watcher) node(ctx context.Context, n *corev1.Node) {
	leaving := n.Spec.Unschedulable || n.DeletionTimestamp != nil
	for _, t := range n.Spec.Taints {
		leaving = leaving || leavingTaints[t.Key]
	}
	if !leaving {
		delete(w.gone, n.Name)
	} else if !w.gone[n.Name] {
		w.leaving(ctx, n.Name)
	}
}

func (w *watcher) leaving(ctx context.Context, node string) {
	w.gone[node] = true
	for _, p := range w.pods {
		if p.Spec.NodeName == node && p.DeletionTimestamp == nil {
			w.warn(ctx, p, time.Now().Add(w.c.cfg.Grace))
		}
	}
}

func (w *watcher) warn(ctx context.Context, p *corev1.Pod, at time.Time) {
	w.notice(ctx, p, cloud.Interruption, at)
}

// taken reports a pod that no longer exists. The exit codes of its containers do not matter, because an evicted pod
// may exit with success.
func (w *watcher) taken(ctx context.Context, p *corev1.Pod) {
	w.notice(ctx, p, cloud.Taken, time.Now())
}

// notice reports a pod, unless the broker has terminated the cluster itself, or is withdrawing it.
func (w *watcher) notice(ctx context.Context, p *corev1.Pod, kind cloud.NoticeKind, at time.Time) {
	m, ok := w.c.machine(p)
	if !ok || w.c.isWithdrawn(m.Cluster) {
		return
	}
	if buried, err := w.c.graves.Buried(ctx, m.Cluster); err != nil || buried {
		return
	}
	w.tell(ctx, cloud.Notice{Cluster: m.Cluster, Machine: m.ID, Kind: kind, At: at})
}
