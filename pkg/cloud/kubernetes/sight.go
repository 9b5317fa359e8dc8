package kubernetes

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sight is what an API server has told of a place's nodes and pods, as Watch keeps it. While it lasts a launch lists
// nothing: in a cluster of ten thousand pods each launch would list all of them, to place one more.
type sight struct {
	mu    sync.Mutex
	live  bool // a watch goes on
	whole bool // a launch could not see more by asking
	all   bool // of the pods of all namespaces
	nodes map[string]*corev1.Node
	takes map[types.UID]taken
	used  map[string]use // by node
	// gangs are the deployment's pods by their cluster's label, and placeholders by theirs; each by name.
	gangs map[string]map[string]*corev1.Pod
}

// gangOf is the label under which gangs has a pod; ok is false of pods of others.
func gangOf(p *corev1.Pod, deployment string) (label string, ok bool) {
	if p.Labels[labelDeployment] == deployment {
		return p.Labels[labelCluster], true
	}
	label = p.Labels[labelPlaceholder]
	return label, label != ""
}

// placed says whether a pod of a gang has a node, or a placeholder keeps the place of one. A task's pod that is over
// has had its node.
func placed(p *corev1.Pod) bool {
	if p.Labels[labelPlaceholder] != "" {
		return isOn(p)
	}
	return p.Spec.NodeName != ""
}

// taken is what one pod takes of a node.
type taken struct {
	node string
	use  use
}

// begin is what a list has told, from which the watch goes on.
func (s *sight) begin(nodes []corev1.Node, pods []corev1.Pod, whole, all bool, deployment string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.whole, s.all = true, whole, all
	s.nodes, s.takes = map[string]*corev1.Node{}, map[types.UID]taken{}
	s.used, s.gangs = map[string]use{}, map[string]map[string]*corev1.Pod{}
	for i := range nodes {
		s.nodes[nodes[i].Name] = slimNode(&nodes[i])
	}
	for i := range pods {
		s.put(&pods[i], deployment)
	}
}

// end says that nothing is known from now on.
func (s *sight) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.nodes, s.takes, s.used, s.gangs = false, nil, nil, nil, nil
}

func (s *sight) node(n *corev1.Node, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there {
		s.nodes[n.Name] = slimNode(n)
	} else {
		delete(s.nodes, n.Name)
	}
}

func (s *sight) pod(p *corev1.Pod, there bool, deployment string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(p, deployment)
	if there {
		s.put(p, deployment)
	}
}

func (s *sight) forget(p *corev1.Pod, deployment string) {
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

func (s *sight) put(p *corev1.Pod, deployment string) {
	if isOn(p) {
		t := taken{p.Spec.NodeName, takes(p)}
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

// look is what nodes have, and how many pods of each cluster of the deployment's have a node, by its label, and how
// many placeholders, by theirs: all as they were at one moment. all says that everybody's pods are known; ok is false
// where no watch tells.
func (s *sight) look(tolerations []corev1.Toleration) (nodes []Node, bound map[string]int, all, ok bool) {
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

// pods are a cluster's, or the placeholders of one, by their label. They are not to be changed.
func (s *sight) pods(label string) (all []corev1.Pod, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.gangs[label] {
		all = append(all, *p)
	}
	return all, s.live
}

// slimPod is what is read of a pod: of ten thousand of them the rest is most.
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
