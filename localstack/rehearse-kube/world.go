package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tradewind-broker/tradewind/internal/base/freeport"
	"github.com/tradewind-broker/tradewind/internal/kubetest"
)

//go:embed dag.yaml
var dag []byte

// The contexts, and the namespace of pods.
const (
	full      = "full"
	roomy     = "roomy"
	namespace = "batch"
)

// World is two clusters and a broker.
type World struct {
	dir, program, agents, address string
	full, roomy                   *kubetest.Cluster
	nodes                         map[string]*kubetest.Kubelet
	grown                         chan struct{} // closed when the pool has created a node
	log                           *os.File

	mu     sync.Mutex
	broker *exec.Cmd
	kills  int
}

// Open starts the clusters with their nodes. program is the command line, agents the folder of the agents' programs.
func Open(ctx context.Context, program, agents string) (w *World, err error) {
	w = &World{program: program, agents: agents, nodes: map[string]*kubetest.Kubelet{}, grown: make(chan struct{})}
	if w.dir, err = os.MkdirTemp("", "tradewind-kube-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if w.log, err = os.Create(filepath.Join(w.dir, "broker.log")); err != nil {
		return nil, err
	}
	if w.address, err = freeport.Address(); err != nil {
		return nil, err
	}
	for name, into := range map[string]**kubetest.Cluster{full: &w.full, roomy: &w.roomy} {
		dir := filepath.Join(w.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		if *into, err = kubetest.Start(ctx, dir, name); err != nil {
			return nil, err
		}
		if err := (*into).Namespace(ctx, namespace, "restricted"); err != nil {
			return nil, err
		}
	}
	if err := w.furnish(ctx); err != nil {
		return nil, err
	}
	return w, w.kubeconfig()
}

// furnish adds the nodes: a cheap one that another pod has filled, and two more expensive ones.
func (w *World) furnish(ctx context.Context) error {
	for _, n := range []struct {
		c    *kubetest.Cluster
		node kubetest.Node
	}{
		{w.full, node("full-a", "cheap.xlarge", 8, 32)}, {w.roomy, node("roomy-a", "dear.xlarge", 12, 48)},
		{w.roomy, node("roomy-b", "dear.xlarge", 12, 48)},
	} {
		if err := w.add(ctx, n.c, n.node); err != nil {
			return err
		}
	}
	filler := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "somebody-else"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{Name: "sleep", Image: "busybox", Command: []string{"sleep", "1000000"},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("7")}}}},
	}}
	_, err := w.full.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, filler, metav1.CreateOptions{})
	return err
}

func node(name, kind string, cpus, gib int) kubetest.Node {
	return kubetest.Node{Name: name, CPUs: cpus, GiB: gib, Labels: map[string]string{
		corev1.LabelInstanceTypeStable: kind,
	}}
}

func (w *World) add(ctx context.Context, c *kubetest.Cluster, n kubetest.Node) error {
	k, err := c.Add(ctx, n)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[n.Name] = k
	return nil
}

// kubeconfig merges both contexts into one file.
func (w *World) kubeconfig() error {
	rules := clientcmd.ClientConfigLoadingRules{Precedence: []string{w.full.Kubeconfig, w.roomy.Kubeconfig}}
	for i, c := range []*kubetest.Cluster{w.full, w.roomy} { // their clusters and users have the same names
		text, err := os.ReadFile(c.Kubeconfig)
		if err != nil {
			return err
		}
		own := strings.NewReplacer("name: it", fmt.Sprint("name: it", i), "cluster: it", fmt.Sprint("cluster: it", i),
			"name: admin", fmt.Sprint("name: admin", i), "user: admin",
			fmt.Sprint("user: admin", i)).Replace(string(text))
		if err := os.WriteFile(c.Kubeconfig, []byte(own), 0o600); err != nil { //nolint:gosec // as above
			return err
		}
	}
	merged, err := rules.Load()
	if err != nil {
		return err
	}
	return clientcmd.WriteToFile(*merged, w.path("kubeconfig"))
}

func (w *World) path(name string) string { return filepath.Join(w.dir, name) }

// run runs a command of the user.
func (w *World) run(ctx context.Context, args ...string) (string, error) {
	return kubetest.CLI{Program: w.program, State: w.path("state")}.Run(ctx, args...)
}

// up starts the broker and waits until it answers.
func (w *World) up(ctx context.Context) error {
	cmd := exec.Command(w.program, "up", "--clouds", "kubernetes,local", "--addr", w.address, //nolint:gosec // as above
		"--public-url", "http://"+w.address, "--agents", w.agents, "-o", "json")
	cmd.Env = append(os.Environ(), "TRADEWIND_STATE="+w.path("state"))
	cmd.Stderr = w.log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.mu.Lock()
	w.broker = cmd
	w.mu.Unlock()
	said := make(chan error, 1)
	go func() {
		lines := json.NewDecoder(stdout)
		var first any
		said <- lines.Decode(&first)
		_, _ = io.Copy(io.Discard, stdout)
	}()
	select {
	case err = <-said:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		text, _ := os.ReadFile(w.log.Name())
		return fmt.Errorf("the broker does not start: %w\n%s", err, text[max(0, len(text)-2000):])
	}
	return nil
}

// kill ends the broker like a power failure of its node.
func (w *World) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broker != nil {
		_ = w.broker.Process.Kill()
		_ = w.broker.Wait() //nolint:errcheck // killed
		w.broker = nil
	}
}

// unrest kills and restarts the broker at random moments, a number of times.
func (w *World) unrest(ctx context.Context, times int, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable
	for range times {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(500+random.IntN(4000)) * time.Millisecond):
		}
		w.kill()
		w.mu.Lock()
		w.kills++
		w.mu.Unlock()
		if err := w.up(ctx); err != nil {
			return err
		}
	}
	return nil
}

// grow is an autoscaler: when a pod waits for a node of the pool's type, it creates one after a moment.
func (w *World) grow(ctx context.Context) error {
	for {
		pods, err := w.roomy.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.Spec.NodeName == "" && len(p.Spec.SchedulingGates) == 0 && wants(p, "wide.xlarge") {
				select {
				case <-time.After(4 * time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
				defer close(w.grown)
				return w.add(ctx, w.roomy, node("roomy-grown", "wide.xlarge", 16, 32))
			}
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wants reports whether a pod may run only on a type of node.
func wants(p *corev1.Pod, kind string) bool {
	text, err := json.Marshal(p.Spec.Affinity)
	return err == nil && bytes.Contains(text, []byte(`"`+kind+`"`))
}

// Close ends everything.
func (w *World) Close() {
	w.kill()
	for _, k := range w.nodes {
		k.Close()
	}
	for _, c := range []*kubetest.Cluster{w.full, w.roomy} {
		if c != nil {
			c.Stop()
		}
	}
	if w.log != nil {
		_ = w.log.Close()
	}
	_ = os.RemoveAll(w.dir)
}
