package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tradewind-broker/tradewind/internal/kubetest"
)

// Story is the sequence of steps.
type Story struct {
	World *World
	Out   io.Writer
	Seed  uint64 // determines when the broker is killed
	Kills int

	job string
}

// errStepFailed means that a step found something wrong.
var errStepFailed = errors.New("step failed")

// Run runs every step and prints its result.
func (s *Story) Run(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"the clusters are added", s.add}, {"the broker starts", s.start}, {"a job is submitted", s.submit},
		{"the job leaves the full cluster for the other", s.left}, {"the job waits for a pool that can grow", s.waited},
		{"a drain moves a running task", s.drain}, {"the job ends", s.end}, {"nothing remains", s.nothing},
	} {
		began := time.Now()
		found, err := step.do(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		_, _ = fmt.Fprintf(s.Out, "%-48s %s (%.1f s)\n", step.name, found, time.Since(began).Seconds())
	}
	return nil
}

func (s *Story) add(ctx context.Context) (string, error) {
	w := s.World
	if _, err := w.run(ctx, "cloud", "add", "kubernetes", "--kubeconfig", w.path("kubeconfig"), "--context",
		full+","+roomy,
		"--namespace", namespace, "--pool", roomy+"/wide.xlarge:16:32:0:1", "--price", "cheap.xlarge=0.01",
		"--price", "dear.xlarge=0.02", "--price", "wide.xlarge=0.08"); err != nil {
		return "", err
	}
	out, err := w.run(ctx, "catalog", "refresh", "--cloud", "kubernetes", "-o", "json")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d bytes of offers", len(out)), nil
}

// start starts the broker, and then kills it from time to time.
func (s *Story) start(ctx context.Context) (string, error) {
	if err := s.World.up(ctx); err != nil {
		return "", err
	}
	return "at " + s.World.address, nil
}

func (s *Story) submit(ctx context.Context) (string, error) {
	file := s.World.path("dag.yaml")
	if err := os.WriteFile(file, dag, 0o600); err != nil {
		return "", err
	}
	out, err := s.World.run(ctx, "submit", file, "--yes")
	if err != nil {
		return "", err
	}
	s.job = strings.TrimSpace(out)
	go func() { _ = s.World.grow(ctx) }()
	return s.job, nil
}

// status is the relevant part of `status -o json`.
type status struct {
	State    string
	TaskList []struct {
		Name, State, Offer string
		Attempts           int
	}
}

func (s *Story) status(ctx context.Context) (st status, err error) {
	out, err := s.World.run(ctx, "status", "-o", "json", s.job)
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal([]byte(out), &st)
}

// await polls the job until ok reports true. It retries while the broker restarts.
func (s *Story) await(ctx context.Context, ok func(status) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		st, err := s.status(ctx)
		if err == nil {
			done, err := ok(st)
			if done || err != nil {
				return err
			}
			if st.State == "failed" || st.State == "cancelled" {
				why, _ := s.World.run(ctx, "explain", s.job)
				return fmt.Errorf("%w: the job is %s\n%s", errStepFailed, st.State, why)
			}
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			why, _ := s.World.run(context.WithoutCancel(ctx), "explain", s.job)
			return fmt.Errorf("%w: last error: %w\n%s", ctx.Err(), err, why)
		}
	}
}

func (st status) task(name string) (state, offer string) {
	for _, t := range st.TaskList {
		if t.Name == name {
			return t.State, t.Offer
		}
	}
	return "", ""
}

// left: the cheap cluster refuses, and the gang of eight is bound on the other within 15 s of the refusal.
func (s *Story) left(ctx context.Context) (string, error) {
	began := time.Now()
	err := s.await(ctx, func(st status) (bool, error) {
		pods, err := s.World.roomy.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		bound := 0
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName != "" {
				bound++
			}
		}
		state, _ := st.task("gang")
		return bound == 8 || state == "succeeded", nil
	})
	if err != nil {
		return "", err
	}
	took := time.Since(began)
	why, err := s.World.run(ctx, "explain", s.job)
	if err != nil {
		return "", err
	}
	if !strings.Contains(why, "fit on the nodes of "+full) {
		return "", fmt.Errorf("%w: the full cluster was not tried\n%s", errStepFailed, why)
	}
	if took > 15*time.Second {
		return "", fmt.Errorf("%w: it took %s", errStepFailed, took)
	}
	return fmt.Sprintf("8 pods bound on %s", roomy), nil
}

func (s *Story) waited(ctx context.Context) (string, error) {
	err := s.await(ctx, func(st status) (bool, error) {
		state, offer := st.task("wide")
		if state != "succeeded" {
			return false, nil
		}
		if !strings.Contains(offer, "wide.xlarge") {
			return false, fmt.Errorf("%w: it ran on %s", errStepFailed, offer)
		}
		return true, nil
	})
	return "it ran on the new node", err
}

// drain acts like kubectl drain, while the task is at its tenth step.
func (s *Story) drain(ctx context.Context) (string, error) {
	core := s.World.roomy.Client.CoreV1()
	var pod *corev1.Pod
	if err := s.await(ctx, func(st status) (bool, error) {
		state, _ := st.task("train")
		if state != "running" {
			return false, nil
		}
		pods, err := core.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "tradewind.dev/task=train"})
		if err != nil || len(pods.Items) == 0 {
			return false, err
		}
		pod = &pods.Items[0]
		log, err := s.World.run(ctx, "explain", s.job)
		return err == nil && pod.Status.Phase == corev1.PodRunning && log != "", nil
	}); err != nil {
		return "", err
	}
	time.Sleep(5 * time.Second) // ten steps and a checkpoint
	node := pod.Spec.NodeName
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := core.Nodes().Patch(ctx, node, types.MergePatchType, cordon, metav1.PatchOptions{}); err != nil {
		return "", err
	}
	if err := core.Pods(namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: namespace,
	}}); err != nil {
		return "", err
	}
	killed := make(chan error, 1)
	go func() { killed <- s.World.unrest(ctx, s.Kills, s.Seed) }()
	if err := s.await(ctx, func(st status) (bool, error) {
		state, _ := st.task("train")
		return state == "succeeded", nil
	}); err != nil {
		return "", err
	}
	if err := <-killed; err != nil {
		return "", err
	}
	log, err := s.World.run(ctx, "logs", s.job, "train")
	if err != nil {
		return "", err
	}
	if !strings.Contains(log, "resuming from step") || strings.Contains(log, "resumed from 0,") {
		return "", fmt.Errorf("%w: it did not resume from its checkpoint:\n%s", errStepFailed, log)
	}
	last := strings.TrimSpace(log[strings.LastIndex(strings.TrimSpace(log), "\n")+1:])
	return fmt.Sprintf("off node %s: %s; the broker was killed %d times", node, last, s.World.kills), nil
}

func (s *Story) end(ctx context.Context) (string, error) {
	err := s.await(ctx, func(st status) (bool, error) { return st.State == "succeeded", nil })
	if err != nil {
		return "", err
	}
	return "succeeded", nil
}

// nothing checks that no pod, Secret or claim remains in either cluster, and that the broker's log has no token.
func (s *Story) nothing(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		left, err := s.leftovers(ctx)
		if err != nil {
			return "", err
		}
		if len(left) == 0 {
			break
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return "", fmt.Errorf("%w: remaining: %s", errStepFailed, strings.Join(left, ", "))
		}
	}
	s.World.kill()
	machines, err := filepath.Glob(s.World.path("state/machines/clusters/*"))
	if err != nil {
		return "", err
	}
	if len(machines) > 0 {
		return "", fmt.Errorf("%w: local machines: %v", errStepFailed, machines)
	}
	return "no pod, no secret, no claim", nil
}

func (s *Story) leftovers(ctx context.Context) (left []string, err error) {
	for _, c := range []*kubetest.Cluster{s.World.full, s.World.roomy} {
		pods, err := c.Pods(ctx, namespace)
		if err != nil {
			return nil, err
		}
		secrets, err := c.Client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		claims, err := c.Client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, p := range pods {
			left = append(left, c.Name+"/pod/"+p)
		}
		for i := range secrets.Items {
			left = append(left, c.Name+"/secret/"+secrets.Items[i].Name)
		}
		for i := range claims.Items {
			left = append(left, c.Name+"/claim/"+claims.Items[i].Name)
		}
	}
	return left, nil
}
