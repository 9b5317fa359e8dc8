package kubernetes

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// watchCache has the nodes and pods of a place as reported by Watch. While the watch runs, launches make no lists.
// Otherwise, in a cluster of ten thousand pods, each launch would list all of them to place one more.
type watchCache struct {
	mu    sync.Mutex
	live  bool // a watch is running
	whole bool // no list call would return more
	all   bool // covers the pods of all namespaces
	nodes map[string]*corev1.Node
	takes map[types.UID]podUsage
	used  map[string]use // by node
	// gangs are the deployment's pods by cluster label, and its placeholders by placeholder label. The inner key is
	// the pod's name.
	gangs map[string]map[string]*corev1.Pod
}

// gangOf returns the key of a pod in watchCache.gangs: its cluster label, or its placeholder label. ok is false if the
// pod is neither of this deployment nor a placeholder.
func gangOf(p *corev1.Pod, deployment string) (label string, ok bool) {
	if p.Labels[labelDeployment] == deployment {
		return p.Labels[labelCluster], true
	}
	label = p.Labels[labelPlaceholder]
	return label, label != ""
}

// placed reports whether a pod of a gang has got a node, or a placeholder occupies one. A finished pod of a task
// still counts, because it has had its node.
func placed(p *corev1.Pod) bool {
	if p.Labels[labelPlaceholder] != "" {
		return isOn(p)
	}
	return p.Spec.NodeName != ""
}

// podUsage is the use of a node by one pod.
type podUsage struct {
	node string
	use  use
}

// begin stores the lists from which the watch continues.
func (s *watchCache) begin(nodes []corev1.Node, pods []corev1.Pod, whole, all bool, deployment string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.whole, s.all = true, whole, all
	s.nodes, s.takes = map[string]*corev1.Node{}, map[types.UID]podUsage{}
	s.used, s.gangs = map[string]use{}, map[string]map[string]*corev1.Pod{}
	for i := range nodes {
		s.nodes[nodes[i].Name] = slimNode(&nodes[i])
	}
	for i := range pods {
		s.put(&pods[i], deployment)
	}
}

// end clears everything, because the watch has ended.
func (s *watchCache) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.nodes, s.takes, s.used, s.gangs = false, nil, nil, nil, nil
}

func (s *watchCache) node(n *corev1.Node, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there {
		s.nodes[n.Name] = slimNode(n)
	} else {
		delete(s.nodes, n.Name)
	}
}

func (s *watchCache) pod(p *corev1.Pod, there bool, deployment string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(p, deployment)
	if there {
		s.put(p, deployment)
	}
}

func (s *watchCache) forget(p *corev1.Pod, deployment string) {
	if t, some := s.takes[p.UID]; some {
		if s.used[t.node] = s.used[t.node].plus(t.use, -1); s.used[t.node].Pods == 0 {
			delete(s.used, t.node)
		}
		delete(s.takes, p.UID)
	}
	label, _ := gangOf(p, deployment)
	of := s.gangs[label]
	if now := of[p.Name]; now != nil && now.UID == p.UID {
		if delete(of, p.Name); len(of) == 0 {
			delete(s.gangs, label)
		}
	}
}

func (s *watchCache) put(p *corev1.Pod, deployment string) {
	if isOn(p) {
		t := podUsage{p.Spec.NodeName, takes(p)}
		s.takes[p.UID], s.used[t.node] = t, s.used[t.node].plus(t.use, 1)
	}
	label, ok := gangOf(p, deployment)
	if !ok {
		return
	}
	if s.gangs[label] == nil {
		s.gangs[label] = map[string]*corev1.Pod{}
	}
	s.gangs[label][p.Name] = slimPod(p)
}

// look returns the free room of the nodes. It also returns, by label, the number of pods of each of the deployment's
// clusters, and the number of placeholders, that have a node. All of this is from the same moment. all is true if the
// pods of all users are known; ok is false if no watch runs.
func (s *watchCache) look(tolerations []corev1.Toleration) (nodes []Node, bound map[string]int, all, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live || !s.whole {
		return nil, nil, false, false
	}
	bound = map[string]int{}
	for label, pods := range s.gangs {
		for _, p := range pods {
			if placed(p) {
				bound[label]++
			}
		}
	}
	there := make([]*corev1.Node, 0, len(s.nodes))
	for _, n := range s.nodes {
		there = append(there, n)
	}
	return readNodes(there, s.used, tolerations), bound, s.all, true
}

// pods returns the pods of a cluster, or its placeholders, by their label. The caller must not change them.
func (s *watchCache) pods(label string) (all []corev1.Pod, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.gangs[label] {
		all = append(all, *p)
	}
	return all, s.live
}

// slimPod keeps only the fields of a pod that are used, which saves most of the memory for ten thousand pods.
func slimPod(p *corev1.Pod) *corev1.Pod {
	slim := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, Labels: p.Labels, CreationTimestamp: p.CreationTimestamp,
			DeletionTimestamp: p.DeletionTimestamp, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName, SchedulingGates: p.Spec.SchedulingGates},
		Status: corev1.PodStatus{
			Phase: p.Status.Phase, Reason: p.Status.Reason,
			InitContainerStatuses: p.Status.InitContainerStatuses, ContainerStatuses: p.Status.ContainerStatuses,
		},
	}
	for _, name := range []string{noteCluster, noteOffer} {
		if v, some := p.Annotations[name]; some {
			slim.Annotations[name] = v
		}
	}
	for _, of := range []corev1.PodConditionType{corev1.PodScheduled, corev1.DisruptionTarget} {
		if c := condition(p, of); c != nil {
			slim.Status.Conditions = append(slim.Status.Conditions, *c)
		}
	}
	return slim
}

func slimNode(n *corev1.Node) *corev1.Node {
	slim := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, DeletionTimestamp: n.DeletionTimestamp},
		Spec: corev1.NodeSpec{
			Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints, ProviderID: n.Spec.ProviderID,
		},
		Status: corev1.NodeStatus{Allocatable: n.Status.Allocatable},
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			slim.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return slim
}
