package gce

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/dataproc/v1"

	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
)

// spark has the clusters, jobs and batches of Dataproc.
type spark struct {
	clusters map[string]*sparkCluster // by region/name
	jobs     map[string]*sparkJob     // by region/ID
	batches  map[string]*sparkBatch   // by region/ID
	made     int
	boots    [2]time.Duration               // until a cluster is ready, and until a batch begins
	ended    []sparkjob.Usage               // of deleted clusters
	late     []string                       // details of the next clusters that fail
	requests map[string]*dataproc.Operation // by requestId
	stop     context.CancelFunc
	ctx      context.Context //nolint:containedctx // of the running applications
}

func newSpark() spark {
	ctx, stop := context.WithCancel(context.Background())
	return spark{clusters: map[string]*sparkCluster{}, jobs: map[string]*sparkJob{}, batches: map[string]*sparkBatch{},
		requests: map[string]*dataproc.Operation{}, ctx: ctx, stop: stop}
}

type sparkCluster struct {
	record dataproc.Cluster
	steps  int // requests until it is ready
	usage  sparkjob.Usage
	fails  string // the detail with which it fails then
}

type sparkJob struct {
	record dataproc.Job
	app    application
}

type sparkBatch struct {
	record dataproc.Batch
	made   time.Time
	usage  sparkjob.Usage
	app    application
}

// application is one run of spark-submit.
type application struct {
	args []string
	logs string // URI of its output
	stop context.CancelFunc
}

// FailCluster makes the next Dataproc cluster be accepted, and fail with a detail before it is ready.
func (c *Cloud) FailCluster(detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spark.late = append(c.spark.late, detail)
}

// KillCluster makes a Dataproc cluster fail.
func (c *Cloud) KillCluster(name, detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.spark.clusters {
		if k.record.ClusterName == name {
			c.setCluster(k, "ERROR", detail)
		}
	}
}

// BootSpark sets how long a new cluster of Dataproc takes until it is ready, in addition to its requests, and a batch
// until it begins.
func (c *Cloud) BootSpark(cluster, batch time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spark.boots = [2]time.Duration{cluster, batch}
}

// SparkUsage returns the billed usage of the project for clusters and batches of Dataproc.
func (c *Cloud) SparkUsage() []sparkjob.Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.spark.ended)
	for _, k := range c.spark.clusters {
		if k.usage.Until.IsZero() {
			all = append(all, k.usage)
		}
	}
	for _, b := range c.spark.batches {
		if !b.usage.From.IsZero() {
			all = append(all, b.usage)
		}
	}
	return all
}

// Spark returns how many clusters were made, how many clusters and batches exist, and how many jobs and batches were
// ever accepted.
func (c *Cloud) Spark() (made, clusters, batches, runs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.spark.batches {
		if b.record.State != deleted {
			batches++
		}
	}
	return c.spark.made, len(c.spark.clusters), batches, len(c.spark.jobs) + len(c.spark.batches)
}

// deleted is the state of a batch that was deleted: it is not Google's, and no answer has it.
const deleted = "DELETED"

func preconditionFailed(format string, args ...any) *Fault {
	return &Fault{Code: http.StatusBadRequest, Reason: "failedPrecondition", Status: "FAILED_PRECONDITION",
		Message: fmt.Sprintf(format, args...)}
}

func exists(format string, args ...any) *Fault {
	return &Fault{Code: http.StatusConflict, Reason: "alreadyExists", Status: "ALREADY_EXISTS",
		Message: "Already exists: " + fmt.Sprintf(format, args...)}
}

// sparkOperation returns an operation of Dataproc; nobody waits for one here.
func (c *Cloud) sparkOperation(region string) *dataproc.Operation {
	return &dataproc.Operation{Name: "projects/" + c.cfg.Project + "/regions/" + region + "/operations/" +
		strconv.FormatUint(c.number(), 10)}
}

func (c *Cloud) setCluster(k *sparkCluster, state, detail string) {
	if k.record.Status != nil {
		k.record.StatusHistory = append(k.record.StatusHistory, k.record.Status)
	}
	k.record.Status = &dataproc.ClusterStatus{State: state, Detail: detail,
		StateStartTime: c.cfg.Now().UTC().Format(time.RFC3339Nano)}
}

// progressSpark advances clusters, and starts jobs and batches.
func (c *Cloud) progressSpark() {
	for id, k := range c.spark.clusters {
		switch k.record.Status.State {
		case "CREATING":
			if k.steps--; k.steps <= 0 && k.fails != "" {
				c.setCluster(k, "ERROR", k.fails)
			} else if k.steps <= 0 && c.cfg.Now().Sub(k.usage.From) >= c.spark.boots[0] {
				c.setCluster(k, "RUNNING", "")
			}
		case "DELETING":
			delete(c.spark.clusters, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.spark.jobs)) {
		j := c.spark.jobs[id]
		if j.record.Status.State != "PENDING" {
			continue
		}
		j.record.Status.State = "RUNNING"
		c.runApplication(&j.app, func(r sparkjob.Result) {
			switch {
			case j.record.Status.State != "RUNNING":
			case r.Err != nil:
				j.record.Status.State = "ERROR"
				j.record.Status.Details = "Google Cloud Dataproc Agent reports job failure. If logs are available, " +
					"they can be found at:\n" + j.record.DriverOutputResourceUri
			default:
				j.record.Status.State = "DONE"
			}
			j.record.Done = true
		})
	}
	for _, id := range slices.Sorted(maps.Keys(c.spark.batches)) {
		b := c.spark.batches[id]
		if b.record.State != "PENDING" || c.cfg.Now().Sub(b.made) < c.spark.boots[1] {
			continue
		}
		b.record.State, b.usage.From = "RUNNING", c.cfg.Now()
		b.record.StateTime = c.cfg.Now().UTC().Format(time.RFC3339Nano)
		c.runApplication(&b.app, func(r sparkjob.Result) {
			b.usage.Until = c.cfg.Now()
			b.record.StateHistory = append(b.record.StateHistory,
				&dataproc.StateHistory{State: "RUNNING", StateStartTime: b.record.StateTime})
			b.record.StateTime = c.cfg.Now().UTC().Format(time.RFC3339Nano)
			switch {
			case b.record.State != "RUNNING":
			case r.Err != nil:
				b.record.State = "FAILED"
				b.record.StateMessage = "Job failed with message [" + r.Err.Error() + "]. Additional details can be " +
					"found at:\n" + b.record.RuntimeInfo.OutputUri
			default:
				b.record.State = "SUCCEEDED"
			}
		})
	}
}

// runApplication runs an application; done is called with the lock held.
func (c *Cloud) runApplication(app *application, done func(sparkjob.Result)) {
	ctx, stop := context.WithCancel(c.spark.ctx)
	app.stop = stop
	storage := c.storage
	c.work.Go(func() {
		defer stop()
		result := c.cfg.Run(ctx, app.args)
		c.writeObject(storage, app.logs+".000000000", append(result.Stderr, result.Stdout...))
		c.mu.Lock()
		defer c.mu.Unlock()
		done(result)
	})
}

// writeObject writes an object into the server for buckets.
func (c *Cloud) writeObject(server, uri string, text []byte) {
	in, name, _ := strings.Cut(strings.TrimPrefix(uri, "gs://"), "/")
	if server == "" || len(text) == 0 {
		return
	}
	query := url.Values{"uploadType": {"media"}, "name": {name}}.Encode()
	resp, err := http.Post(server+"/upload/storage/v1/b/"+in+"/o?"+query, "text/plain", //nolint:noctx,gosec // of a test
		bytes.NewReader(text))
	if err == nil {
		_ = resp.Body.Close()
	}
}

// forwardObject forwards a request for objects to the server for buckets: its answers are not JSON. It returns false
// for other requests.
func (c *Cloud) forwardObject(w http.ResponseWriter, r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, "/storage/v1/b/")
	if _, object, is := strings.Cut(rest, "/"); !ok || !is || object != "o" && !strings.HasPrefix(object, "o/") {
		return false
	}
	c.mu.Lock()
	server := c.storage
	c.mu.Unlock()
	u, err := url.Parse(server)
	if err != nil || server == "" {
		return false
	}
	httputil.NewSingleHostReverseProxy(u).ServeHTTP(w, r)
	return true
}

func (c *Cloud) createCluster(r *call) (any, *Fault) {
	region := r.arg(1)
	var in dataproc.Cluster
	if err := json.Unmarshal(r.body, &in); err != nil {
		return nil, invalid("%v", err)
	}
	if k := in.Config; k == nil || k.MasterConfig == nil || k.WorkerConfig == nil || k.WorkerConfig.NumInstances < 2 {
		return nil, &Fault{Code: http.StatusBadRequest, Status: "INVALID_ARGUMENT", Reason: "badRequest",
			Message: "Clusters must contain at least 2 primary workers"}
	}
	if c.spark.clusters[key(region, in.ClusterName)] != nil {
		return nil, exists("Failed to create cluster: Cluster projects/%s/regions/%s/clusters/%s", c.cfg.Project,
			region, in.ClusterName)
	}
	if again := c.spark.requests[r.URL.Query().Get("requestId")]; again != nil {
		return again, nil
	}
	k := &sparkCluster{record: in, steps: c.weather.steps}
	k.usage = sparkjob.Usage{Service: "dataproc", InstanceType: in.Config.WorkerConfig.MachineTypeUri,
		From: c.cfg.Now()}
	for _, g := range []*dataproc.InstanceGroupConfig{in.Config.MasterConfig, in.Config.WorkerConfig,
		in.Config.SecondaryWorkerConfig} {
		if g != nil {
			k.usage.Machines += int(g.NumInstances)
		}
	}
	k.record.ClusterUuid = strconv.FormatUint(c.number(), 16)
	c.setCluster(k, "CREATING", "")
	if len(c.spark.late) > 0 {
		k.fails, c.spark.late = c.spark.late[0], c.spark.late[1:]
	}
	c.spark.clusters[key(region, in.ClusterName)] = k
	c.spark.made++
	op := c.sparkOperation(region)
	if id := r.URL.Query().Get("requestId"); id != "" {
		c.spark.requests[id] = op
	}
	return op, nil
}

func (c *Cloud) getCluster(r *call) (any, *Fault) {
	k := c.spark.clusters[key(r.arg(1), r.arg(2))]
	if k == nil {
		return nil, sparkGone("cluster projects/%s/regions/%s/clusters/%s", c.cfg.Project, r.arg(1), r.arg(2))
	}
	return &k.record, nil
}

func sparkGone(format string, args ...any) *Fault {
	return &Fault{Code: http.StatusNotFound, Reason: "notFound", Status: "NOT_FOUND",
		Message: "Not found: " + fmt.Sprintf(format, args...)}
}

func (c *Cloud) listClusters(r *call) (any, *Fault) {
	var all []*dataproc.Cluster
	for _, id := range slices.Sorted(maps.Keys(c.spark.clusters)) {
		if strings.HasPrefix(id, r.arg(1)+"/") {
			all = append(all, &c.spark.clusters[id].record)
		}
	}
	part, next := page(r, all)
	return &dataproc.ListClustersResponse{Clusters: part, NextPageToken: next}, nil
}

func (c *Cloud) deleteCluster(r *call) (any, *Fault) {
	region, name := r.arg(1), r.arg(2)
	k := c.spark.clusters[key(region, name)]
	switch {
	case k == nil:
		return nil, sparkGone("cluster projects/%s/regions/%s/clusters/%s", c.cfg.Project, region, name)
	case k.record.Status.State == "CREATING" || k.record.Status.State == "DELETING":
		return nil, preconditionFailed("Cannot delete cluster '%s' while it has other pending operations", name)
	}
	c.setCluster(k, "DELETING", "")
	k.usage.Until = c.cfg.Now()
	c.spark.ended = append(c.spark.ended, k.usage)
	for _, j := range c.spark.jobs {
		if j.record.Placement.ClusterName == name && !j.record.Done {
			j.end("ERROR", "The cluster was deleted.")
		}
	}
	return c.sparkOperation(region), nil
}

// end ends a job.
func (j *sparkJob) end(state, details string) {
	if j.app.stop != nil {
		j.app.stop()
	}
	j.record.Status.State, j.record.Status.Details, j.record.Done = state, details, true
}

// submitArgs returns the arguments of spark-submit.
func submitArgs(class, main string, pyFiles, jars, args []string, properties map[string]string) (all []string) {
	if class != "" {
		main, jars = jars[0], jars[1:]
		all = append(all, "--class", class)
	}
	if len(pyFiles) > 0 {
		all = append(all, "--py-files", strings.Join(pyFiles, ","))
	}
	if len(jars) > 0 {
		all = append(all, "--jars", strings.Join(jars, ","))
	}
	for _, k := range slices.Sorted(maps.Keys(properties)) {
		all = append(all, "--conf", k+"="+properties[k])
	}
	return append(append(all, main), args...)
}

func (c *Cloud) submitJob(r *call) (any, *Fault) {
	region := r.arg(1)
	var in dataproc.SubmitJobRequest
	if err := json.Unmarshal(r.body, &in); err != nil || in.Job == nil || in.Job.Placement == nil {
		return nil, invalid("the request has no job")
	}
	job := *in.Job
	if job.Reference == nil || job.Reference.JobId == "" {
		job.Reference = &dataproc.JobReference{ProjectId: c.cfg.Project, JobId: strconv.FormatUint(c.number(), 16)}
	}
	id := key(region, job.Reference.JobId)
	if c.spark.jobs[id] != nil {
		return nil, exists("Job projects/%s/regions/%s/jobs/%s", c.cfg.Project, region, job.Reference.JobId)
	}
	k := c.spark.clusters[key(region, job.Placement.ClusterName)]
	if k == nil {
		return nil, sparkGone("Cluster projects/%s/regions/%s/clusters/%s", c.cfg.Project, region,
			job.Placement.ClusterName)
	}
	if state := k.record.Status.State; state != "RUNNING" {
		return nil, preconditionFailed("Cluster %s is in state %s and cannot accept jobs", k.record.ClusterName, state)
	}
	job.Status = &dataproc.JobStatus{State: "PENDING"}
	job.DriverOutputResourceUri = "gs://" + k.record.Config.ConfigBucket + "/google-cloud-dataproc-metainfo/" +
		k.record.ClusterUuid + "/jobs/" + job.Reference.JobId + "/driveroutput"
	j := &sparkJob{record: job}
	j.app.logs = job.DriverOutputResourceUri
	switch p, s := job.PysparkJob, job.SparkJob; {
	case p != nil:
		j.app.args = submitArgs("", p.MainPythonFileUri, p.PythonFileUris, p.JarFileUris, p.Args, p.Properties)
	case s != nil && len(s.JarFileUris) > 0:
		j.app.args = submitArgs(s.MainClass, "", nil, s.JarFileUris, s.Args, s.Properties)
	default:
		return nil, invalid("this emulator runs only Spark")
	}
	c.spark.jobs[id] = j
	return &j.record, nil
}

func (c *Cloud) findJob(r *call) (*sparkJob, *Fault) {
	j := c.spark.jobs[key(r.arg(1), r.arg(2))]
	if j == nil {
		return nil, sparkGone("job %s", r.arg(2))
	}
	return j, nil
}

func (c *Cloud) getJob(r *call) (any, *Fault) {
	j, f := c.findJob(r)
	if f != nil {
		return nil, f
	}
	return &j.record, nil
}

func (c *Cloud) cancelJob(r *call) (any, *Fault) {
	j, f := c.findJob(r)
	switch {
	case f != nil:
		return nil, f
	case j.record.Done:
		return nil, preconditionFailed("Job %s is in state %s and cannot be cancelled", r.arg(2), j.record.Status.State)
	}
	j.end("CANCELLED", "")
	return &j.record, nil
}

func (c *Cloud) createBatch(r *call) (any, *Fault) {
	region, id := r.arg(1), r.URL.Query().Get("batchId")
	var in dataproc.Batch
	if err := json.Unmarshal(r.body, &in); err != nil || in.EnvironmentConfig == nil || in.RuntimeConfig == nil {
		return nil, invalid("the batch has no configuration")
	}
	if b := c.spark.batches[key(region, id)]; b != nil && b.record.State != deleted {
		return nil, exists("Batch projects/%s/locations/%s/batches/%s", c.cfg.Project, region, id)
	}
	in.Name = "projects/" + c.cfg.Project + "/locations/" + region + "/batches/" + id
	in.State, in.CreateTime = "PENDING", c.cfg.Now().UTC().Format(time.RFC3339Nano)
	op := c.sparkOperation(region)
	in.Operation = op.Name
	in.RuntimeInfo = &dataproc.RuntimeInfo{OutputUri: "gs://" + in.EnvironmentConfig.ExecutionConfig.StagingBucket +
		"/google-cloud-dataproc-metainfo/batches/" + id + "/driveroutput"}
	b := &sparkBatch{record: in, made: c.cfg.Now(),
		usage: sparkjob.Serverless("dataproc-serverless", in.RuntimeConfig.Properties)}
	b.app.logs = in.RuntimeInfo.OutputUri
	properties := in.RuntimeConfig.Properties
	switch p, s := in.PysparkBatch, in.SparkBatch; {
	case p != nil:
		b.app.args = submitArgs("", p.MainPythonFileUri, p.PythonFileUris, p.JarFileUris, p.Args, properties)
	case s != nil && len(s.JarFileUris) > 0:
		b.app.args = submitArgs(s.MainClass, "", nil, s.JarFileUris, s.Args, properties)
	default:
		return nil, invalid("this emulator runs only Spark")
	}
	c.spark.batches[key(region, id)] = b
	return op, nil
}

func (c *Cloud) findBatch(r *call) (*sparkBatch, *Fault) {
	b := c.spark.batches[key(r.arg(1), r.arg(2))]
	if b == nil || b.record.State == deleted {
		return nil, sparkGone("batch %s", r.arg(2))
	}
	return b, nil
}

func (c *Cloud) getBatch(r *call) (any, *Fault) {
	b, f := c.findBatch(r)
	if f != nil {
		return nil, f
	}
	return &b.record, nil
}

func (c *Cloud) listBatches(r *call) (any, *Fault) {
	var all []*dataproc.Batch
	for _, id := range slices.Sorted(maps.Keys(c.spark.batches)) {
		if b := c.spark.batches[id]; strings.HasPrefix(id, r.arg(1)+"/") && b.record.State != deleted {
			all = append(all, &b.record)
		}
	}
	part, next := page(r, all)
	return &dataproc.ListBatchesResponse{Batches: part, NextPageToken: next}, nil
}

func (c *Cloud) deleteBatch(r *call) (any, *Fault) {
	b, f := c.findBatch(r)
	if f != nil {
		return nil, f
	}
	if s := b.record.State; s != "CANCELLED" && s != "SUCCEEDED" && s != "FAILED" {
		return nil, preconditionFailed("Batch %s is in state %s and cannot be deleted", r.arg(2), s)
	}
	b.record.State = deleted
	return struct{}{}, nil
}

// cancelSparkOperation cancels a batch by its operation.
func (c *Cloud) cancelSparkOperation(r *call) (any, *Fault) {
	for _, b := range c.spark.batches {
		if base(b.record.Operation) != r.arg(2) {
			continue
		}
		if s := b.record.State; s != "PENDING" && s != "RUNNING" {
			return nil, preconditionFailed("operation %s has ended", r.arg(2))
		}
		b.record.State = "CANCELLED"
		if b.app.stop != nil {
			b.app.stop()
		}
		return struct{}{}, nil
	}
	return nil, sparkGone("operation %s", r.arg(2))
}
