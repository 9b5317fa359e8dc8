// Package kubejobs runs jobs that users create as objects of a cluster: Job of the group tradewind.dev.
//
// A controller lists the objects of one namespace every few seconds and does the next step for each: it adds a
// finalizer, submits the job with the object's UID as its key, writes the job's state back and reports it as events.
// If an object is deleted, it cancels the job before it lets the object go. The controller has no state: every step
// can be repeated, by it or by another controller after a crash.
package kubejobs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/internal/kubedeploy"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Cluster is the part of a cluster's API that the controller uses.
type Cluster interface {
	Get(ctx context.Context, path string) (kubeapi.Object, error)
	Create(ctx context.Context, path string, o kubeapi.Object) (kubeapi.Object, error)
	Apply(ctx context.Context, path string, o kubeapi.Object, dryRun bool) (kubeapi.Object, error)
	Merge(ctx context.Context, path string, o kubeapi.Object) (kubeapi.Object, error)
}

// Broker is the part of the broker that the controller uses.
type Broker interface {
	Submit(ctx context.Context, name, key string, file []byte, secrets map[string]string) (*apitypes.Submitted, error)
	Job(ctx context.Context, id string) (*apitypes.JobDetail, error)
	Cancel(ctx context.Context, id, reason string) (*apitypes.JobView, error)
}

// Controller runs the jobs of one namespace.
type Controller struct {
	Cluster   Cluster
	Broker    Broker
	Namespace string
	Log       *slog.Logger
	// Every is the time between two passes.
	Every time.Duration
}

// Phases of an object that are not states of a job.
const (
	phaseRefused = "refused" // the broker rejects the job; the message has the reason
)

// LeaveToken stores the token of the broker's users in a Secret. Everybody who may read the namespace's Secrets can
// use it.
func LeaveToken(ctx context.Context, c Cluster, namespace, token string) error {
	_, err := c.Apply(ctx, kubeapi.Path("v1", "secrets", namespace, kubedeploy.TokenSecret), kubeapi.Object{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": map[string]any{
			"name": kubedeploy.TokenSecret, "namespace": namespace,
			"labels": map[string]any{"app.kubernetes.io/name": kubedeploy.Name},
		},
		"data": map[string]any{kubedeploy.TokenKey: base64.StdEncoding.EncodeToString([]byte(token))},
	}, false)
	return err
}

// Run calls Look repeatedly until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	for {
		if err := c.Sync(ctx); err != nil && ctx.Err() == nil {
			c.Log.Warn("jobs in the cluster", "err", err)
		}
		if clock.Pause(ctx, c.Every) != nil {
			return
		}
	}
}

// Sync does the next step for every object. A failure of one does not affect the others.
func (c *Controller) Sync(ctx context.Context) error {
	list, err := c.Cluster.Get(ctx, kubeapi.Path(kubedeploy.JobsVersion, kubedeploy.JobsPlural, c.Namespace, ""))
	if err != nil {
		return err
	}
	var errs []error
	for _, o := range list.Items() {
		if err := c.reconcile(ctx, o); err != nil && !kubeapi.NotFound(err) && !kubeapi.Conflict(err) {
			errs = append(errs, fmt.Errorf("%s: %w", o.Text("metadata", "name"), err))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) path(o kubeapi.Object) string {
	return kubeapi.Path(kubedeploy.JobsVersion, kubedeploy.JobsPlural, c.Namespace, o.Text("metadata", "name"))
}

// reconcile does the next step for one object.
func (c *Controller) reconcile(ctx context.Context, o kubeapi.Object) error {
	phase, job := apitypes.JobState(o.Text("status", "phase")), o.Text("status", "job")
	if o.At("metadata", "deletionTimestamp") != nil {
		return c.finalize(ctx, o)
	}
	if phase == phaseRefused || phase.Finished() {
		return nil // the job is finished: nothing can change
	}
	if !has(o, kubedeploy.Finalizer) {
		after, err := c.Cluster.Merge(ctx, c.path(o), kubedeploy.WithFinalizers(o, true))
		if err != nil {
			return err
		}
		o = after
	}
	if job == "" {
		return c.submit(ctx, o)
	}
	detail, err := c.Broker.Job(ctx, job)
	if err != nil {
		return err
	}
	return c.updateStatus(ctx, o, status(&detail.JobView, nil))
}

func has(o kubeapi.Object, finalizer string) bool {
	list, _ := o.At("metadata", "finalizers").([]any)
	for _, f := range list {
		if f == finalizer {
			return true
		}
	}
	return false
}

// submit submits the job with the object's UID as its key: repeated submissions are one job.
func (c *Controller) submit(ctx context.Context, o kubeapi.Object) error {
	file, err := file(o)
	if err != nil {
		return c.refuse(ctx, o, err.Error())
	}
	s, err := c.Broker.Submit(
		ctx,
		o.Text("metadata", "name")+".yaml",
		"kubernetes-"+o.Text("metadata", "uid"),
		file,
		nil,
	)
	var problem *apitypes.Problem
	switch {
	case errors.As(err, &problem) && isPermanent(problem.Status):
		return c.refuse(ctx, o, problem.Error())
	case err != nil:
		return err
	}
	return c.updateStatus(ctx, o, status(&s.JobView, s.Warnings))
}

// isPermanent reports whether a request that got an HTTP status would get it again.
func isPermanent(status int) bool {
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError &&
		status != http.StatusTooManyRequests && status != http.StatusRequestTimeout && status != http.StatusUnauthorized
}

func (c *Controller) refuse(ctx context.Context, o kubeapi.Object, why string) error {
	return c.updateStatus(ctx, o, map[string]any{"phase": phaseRefused, "message": why})
}

// file returns the job file of an object.
func file(o kubeapi.Object) ([]byte, error) {
	if text := o.Text("spec", "text"); text != "" {
		return []byte(text), nil
	}
	spec, ok := o.At("spec", "dag").(map[string]any)
	if !ok {
		return nil, errors.New("spec has neither dag nor text")
	}
	job := map[string]any{"apiVersion": "tradewind/v1", "name": o.Text("metadata", "name")}
	for k, v := range spec {
		job[k] = v
	}
	return yaml.Marshal(job)
}

// status returns the status of an object from its job.
func status(j *apitypes.JobView, warnings []string) map[string]any {
	s := map[string]any{
		"phase": string(j.State), "job": j.ID, "tasks": strconv.Itoa(j.Succeeded) + "/" + strconv.Itoa(j.Tasks),
		"costUSD": strconv.FormatFloat(j.SpentUSD, 'f', 4, 64), "message": j.Reason,
	}
	if !j.Deadline.IsZero() {
		s["deadline"] = j.Deadline.UTC().Format(time.RFC3339)
	}
	if len(warnings) > 0 {
		s["warnings"] = warnings
	}
	return s
}

// updateStatus writes a status if it differs from the object's, and an event if the phase differs.
func (c *Controller) updateStatus(ctx context.Context, o kubeapi.Object, s map[string]any) error {
	changed := false
	for k, v := range s {
		was := o.At("status", k)
		if n, ok := was.(float64); ok {
			was = int(n)
		}
		_, list := v.([]string)
		if empty := was == nil && v == ""; !empty && !list && was != v {
			changed = true
		}
	}
	if !changed {
		return nil
	}
	before := o.Text("status", "phase")
	if _, err := c.Cluster.Merge(ctx, c.path(o)+"/status", kubeapi.Object{"status": s}); err != nil {
		return err
	}
	if phase := s["phase"]; phase != before {
		c.event(ctx, o, fmt.Sprint(phase), fmt.Sprint(s["message"]))
	}
	return nil
}

// event creates an event about a phase. An event that fails is not repeated.
func (c *Controller) event(ctx context.Context, o kubeapi.Object, phase, message string) {
	kind := "Normal"
	if phase == phaseRefused || phase == string(apitypes.JobFailed) {
		kind = "Warning"
	}
	if message == "" {
		message = "the job is " + phase
	}
	const most = 1000
	name := o.Text("metadata", "name")
	event := kubeapi.Object{
		"apiVersion": "v1", "kind": "Event",
		"metadata": map[string]any{
			"namespace": c.Namespace,
			"name":      shorten(name, 200) + "." + o.Text("metadata", "uid") + "." + phase,
		},
		"involvedObject": map[string]any{
			"apiVersion": kubedeploy.JobsVersion, "kind": "Job", "namespace": c.Namespace, "name": name,
			"uid": o.Text("metadata", "uid"),
		},
		"type": kind, "reason": phase, "message": shorten(message, most),
		"source": map[string]any{"component": kubedeploy.Name},
	}
	if _, err := c.Cluster.Create(ctx, kubeapi.Path("v1", "events", c.Namespace, ""), event); err != nil &&
		!kubeapi.Conflict(err) {
		c.Log.Debug("could not create an event of a job", "job", name, "err", err)
	}
}

func shorten(s string, most int) string { return s[:min(len(s), most)] }

// finalize cancels the job of an object that is being deleted, and removes the finalizer.
func (c *Controller) finalize(ctx context.Context, o kubeapi.Object) error {
	if !has(o, kubedeploy.Finalizer) {
		return nil
	}
	job, phase := o.Text("status", "job"), apitypes.JobState(o.Text("status", "phase"))
	if job == "" && phase != phaseRefused {
		// The job may have been submitted without an update of the status. Submitting it again returns its ID.
		if body, err := file(o); err == nil {
			s, err := c.Broker.Submit(
				ctx,
				o.Text("metadata", "name")+".yaml",
				"kubernetes-"+o.Text("metadata", "uid"),
				body,
				nil,
			)
			var problem *apitypes.Problem
			switch {
			case err == nil:
				job, phase = s.ID, s.State
			case !errors.As(err, &problem) || problem.Status >= http.StatusInternalServerError:
				return err
			}
		}
	}
	if job != "" && !phase.Finished() {
		_, err := c.Broker.Cancel(ctx, job, "its object in the cluster was deleted")
		var problem *apitypes.Problem
		if err != nil &&
			(!errors.As(err, &problem) ||
				problem.Status != http.StatusNotFound && problem.Status != http.StatusConflict) {
			return err
		}
	}
	_, err := c.Cluster.Merge(ctx, c.path(o), kubedeploy.WithFinalizers(o, false))
	return err
}
