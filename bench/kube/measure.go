package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/base/freeport"
	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
	"github.com/tradewind-broker/tradewind/internal/kubetest"
)

// within limits each half of the run.
const within = 40 * time.Minute

// measure is one run.
type measure struct {
	scale
	program, agents, dir string
	gang                 string // the value of --gang: what binds gangs
	peer                 bool
	world                *world

	gangs              int
	ours, theirs, made time.Duration
	saw                seen
	grown              int
	idle, most         float64 // MiB
}

var errStep = errors.New("step failed")

func (m *measure) run(ctx context.Context) (err error) {
	if m.dir, err = os.MkdirTemp("", "tradewind-bench-kube-"); err != nil {
		return err
	}
	defer os.RemoveAll(m.dir) //nolint:errcheck // a temporary folder
	say("starting the cluster, %d nodes; gangs are bound by %s", m.there, m.gang)
	if m.world, err = open(ctx, m.dir, m.scale, m.gang); err != nil {
		return err
	}
	defer m.world.c.Stop()
	pods, err := m.broker(ctx)
	if err != nil || !m.peer {
		return err
	}
	if err := m.world.empty(ctx); err != nil {
		return err
	}
	if err := m.world.shrink(ctx); err != nil {
		return err
	}
	return m.kubectl(ctx, pods)
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench-kube: "+format+"\n", args...) }

// sizes are the sizes of the gangs, 1 to 64 each, whose sum is the number of pods.
func (m *measure) sizes() (all []int) {
	random := rand.New(rand.NewPCG(m.seed, 0)) //nolint:gosec // reproducible gangs
	for left := m.pods; left > 0; {
		n := min(1+random.IntN(64), left)
		all = append(all, n)
		left -= n
	}
	return all
}

func (m *measure) job() string {
	var b strings.Builder
	b.WriteString("apiVersion: tradewind/v1\nname: many\nobjective: cost\nbudget: 100000 USD\ntasks:\n")
	for i, n := range m.sizes() {
		fmt.Fprintf(&b, "  gang-%d: {nodes: %d, run: sleep 3600, time: 1h, "+
			"resources: {cpus: 1, memory: 4, market: on-demand}}\n", i, n)
		m.gangs++
	}
	return b.String()
}

// broker submits the gangs to a broker, waits until every pod is bound to a node, and returns the pods.
func (m *measure) broker(ctx context.Context) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, err := m.tradewind().Run(ctx, "cloud", "add", "kubernetes",
		"--kubeconfig", m.world.c.Kubeconfig, "--context", "bench",
		"--namespace", namespace, "--pool", fmt.Sprintf("%s:%d:%d:0:%d", nodeType, m.cpus, 4*m.cpus, m.nodes),
		"--price", nodeType+"=0.4", "--gang", m.gang); err != nil {
		return nil, err
	}
	pid, stop, err := m.up(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	file := filepath.Join(m.dir, "many.yaml")
	if err := os.WriteFile(file, []byte(m.job()), 0o600); err != nil {
		return nil, err
	}
	m.idle, _ = memory(pid)
	eye, err := watchPods(ctx, m.world.c.Client, nodeName(m.there))
	if err != nil {
		return nil, err
	}
	plays, end := context.WithCancel(ctx)
	defer end()
	grows := make(chan error, 1)
	go func() { grows <- m.world.karpenter(plays) }()
	say("submitting %d gangs of %d pods", m.gangs, m.pods)
	began := time.Now()
	id, err := m.tradewind().Run(ctx, "submit", file)
	if err != nil {
		return nil, err
	}
	goesOn := func() error { return m.checkRunning(ctx, strings.TrimSpace(id)) }
	if m.ours, err = m.awaitBound(ctx, eye, began, goesOn); err != nil {
		why, _ := m.tradewind().Run(context.WithoutCancel(ctx), "status", strings.TrimSpace(id))
		log, _ := os.ReadFile(filepath.Join(m.dir, "broker.log"))
		return nil, fmt.Errorf("%w\n%s\n%s", err, tail(why), tail(string(log)))
	}
	end()
	if err := <-grows; err != nil {
		return nil, err
	}
	_, m.most = memory(pid)
	m.saw = eye.sum(time.Now())
	m.grown = m.world.nodes - m.there
	if m.saw.lost > 0 {
		return nil, fmt.Errorf("%w: %d pods lost their nodes", errStep, m.saw.lost)
	}
	say("bound in %s; %d nodes were added; longest partly bound %s, on new nodes %s; %d with pods refused, longest %s; "+
		"%.0f MiB", m.ours, m.grown, m.saw.held, m.saw.grown, m.saw.refusals, m.saw.refused, m.most)
	list, err := m.world.c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// awaitBound waits until all pods are bound.
func (m *measure) awaitBound(ctx context.Context, eye *podWatch, began time.Time, goesOn func() error) (time.Duration, error) {
	for told, i := 0, 0; ; i++ {
		if i%200 == 199 {
			if err := goesOn(); err != nil {
				return 0, err
			}
		}
		saw := eye.sum(time.Now())
		bound := saw.bound
		if bound >= m.pods && saw.still == 0 {
			return saw.last.Sub(began), nil
		}
		if bound-told >= m.pods/10 {
			told = bound
			say("%d bound after %.1f s", bound, time.Since(began).Seconds())
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, fmt.Errorf("%d of %d pods are bound (%d gangs partly, longest %s, %d pods lost): %w", bound,
				m.pods, saw.still, saw.held, saw.lost, err)
		}
	}
}

// checkRunning returns an error if the job has ended: its tasks would run for an hour.
func (m *measure) checkRunning(ctx context.Context, id string) error {
	out, err := m.tradewind().Run(ctx, "status", "-o", "json", id)
	if err != nil {
		return nil //nolint:nilerr // the next call asks again
	}
	var job struct{ State string }
	if err := json.Unmarshal([]byte(out), &job); err != nil {
		return err
	}
	if job.State == "failed" || job.State == "succeeded" {
		why, _ := m.tradewind().Run(ctx, "explain", id)
		return fmt.Errorf("%w: the job has %s\n%s", errStep, job.State, why)
	}
	return nil
}

// up starts the broker.
func (m *measure) up(ctx context.Context) (pid int, stop func(), err error) {
	address, err := freeport.Address()
	if err != nil {
		return 0, nil, err
	}
	log, err := os.Create(filepath.Join(m.dir, "broker.log"))
	if err != nil {
		return 0, nil, err
	}
	cmd := exec.CommandContext(ctx, m.program, "up", "--clouds", "kubernetes", //nolint:gosec // as it was built
		"--addr", address, "--public-url", "http://"+address, "--agents", m.agents, "-o", "json",
		"--boot-within", "6h") // pods that KWOK simulates have no agents
	cmd.Env, cmd.Stderr = m.tradewind().Env(), log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() //nolint:errcheck // killed
		_ = log.Close()
	}
	var first any
	if err := json.NewDecoder(stdout).Decode(&first); err != nil {
		stop()
		text, _ := os.ReadFile(log.Name())
		return 0, nil, fmt.Errorf("the broker does not start: %w\n%s", err, tail(string(text)))
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return cmd.Process.Pid, stop, nil
}

func (m *measure) tradewind() kubetest.CLI {
	return kubetest.CLI{Program: m.program, State: filepath.Join(m.dir, "state")}
}

// kubectl applies the same pods, without gates, and waits until every one has a node.
func (m *measure) kubectl(ctx context.Context, pods []corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	file := filepath.Join(m.dir, "pods.json")
	if err := manifest(file, pods); err != nil {
		return err
	}
	eye, err := watchPods(ctx, m.world.c.Client, nodeName(m.there))
	if err != nil {
		return err
	}
	plays, end := context.WithCancel(ctx)
	defer end()
	go func() { _ = m.world.karpenter(plays) }()
	say("kubectl apply of the same %d pods", len(pods))
	began := time.Now()
	cmd := exec.CommandContext(ctx, m.world.c.Program("kubectl"), "--kubeconfig", //nolint:gosec // as it was built
		m.world.c.Kubeconfig, "apply", "-f", file, "-o", "name")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl apply: %w\n%s", err, tail(errs.String()))
	}
	m.made = time.Since(began)
	m.theirs, err = m.awaitBound(ctx, eye, began, func() error { return nil })
	say("bound in %s; kubectl had ended after %s", m.theirs, m.made)
	return err
}

// manifest writes the pods to a file for kubectl apply.
func manifest(file string, pods []corev1.Pod) error {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for i := range pods {
		p := &pods[i]
		plain := corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{
				Name: p.Name, Namespace: p.Namespace, Labels: p.Labels, Annotations: p.Annotations,
			},
			Spec: *p.Spec.DeepCopy(),
		}
		plain.Spec.NodeName, plain.Spec.SchedulingGates = "", nil
		terms := plain.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for t := range terms {
			terms[t].MatchExpressions = slices.DeleteFunc(terms[t].MatchExpressions,
				func(e corev1.NodeSelectorRequirement) bool { return e.Key == corev1.LabelHostname })
		}
		list.Items = append(list.Items, plain)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func (m *measure) rows() []benchreport.Row {
	command := "make bench-kube"
	if m.scale != full {
		command = fmt.Sprintf("bin/bench/kube -pods %d -nodes %d -there %d", m.pods, m.nodes, m.there)
	}
	by, kept := "", ""
	if m.gang != kubernetes.ByGates {
		by = "gangs bound by `--gang " + m.gang + "`: "
		kept = " (pods show the old refusal until each is bound)"
	}
	rows := []benchreport.Row{
		{Measure: fmt.Sprintf("%s%d pods in %d gangs of 1 to 64 on %d nodes, %d of which the simulated Karpenter added "+
			"meanwhile: from `tradewind submit` to the last pod bound", by, m.pods, m.gangs, m.there+m.grown, m.grown),
			Target: "the API server's own pace", Result: seconds(m.ours)},
		{Measure: by + "gangs that held nodes with some of their pods while the scheduler found none for others; " +
			"the longest time" + kept, Target: "none", Result: fmt.Sprintf("%d; %s", m.saw.refusals, seconds(m.saw.refused))},
		{Measure: by + "longest time from the first to the last pod of a gang bound: on existing nodes; on new nodes",
			Target: "the scheduler's own pace", Result: seconds(m.saw.held) + "; " + seconds(m.saw.grown)},
		{Measure: by + "the broker's memory: before; maximum",
			Result: fmt.Sprintf("%.0f MiB; %.0f MiB", m.idle, m.most)},
	}
	if m.peer {
		rows = append(rows, benchreport.Row{Measure: "the same pods without gates with `kubectl apply`: until it ends; until " +
			"the last pod is bound", Target: "for comparison", Result: seconds(m.made) + "; " + seconds(m.theirs)})
	}
	for i := range rows {
		rows[i].Command = command
	}
	return rows
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
