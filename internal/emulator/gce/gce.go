package gce

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
)

// Config describes an emulated project.
type Config struct {
	Project string // the only project; empty means demo
	// Zones are the existing zones, each with its region's name before the last dash; empty means a few.
	Zones []string
	// Dir has a folder for each booted machine, by name; if it is empty, no machines are booted.
	Dir string
	// Environment has variables for boot scripts, in addition to the address of the metadata server.
	Environment []string
	// Price returns the price of a machine in USD for an hour; nil means 0.
	Price func(Bill) float64
	Now   func() time.Time // nil means time.Now
	// Skus are the pages of the price list, in the JSON format of the Cloud Billing API.
	Skus []json.RawMessage
	// Run runs the applications of Dataproc; nil means that they succeed at once.
	Run sparkjob.Runner
}

// Cloud is one project of Google Cloud. It is an http.Handler; all methods are safe for concurrent use.
type Cloud struct {
	cfg    Config
	signer func() (*imdstest.GoogleAuthority, error) // signs identity tokens
	pubsub func() *pubsub                            // started at first use
	opened atomic.Bool                               // whether pubsub was started

	mu       sync.Mutex
	ended    chan struct{} // closed and replaced when a machine has shut itself down
	serial   uint64
	machines map[string]*instance // by zone/name
	ops      map[string]*operation
	requests map[string]*operation // by requestId
	tpus     map[string]*tpuNode   // by zone/name
	queued   map[string]*queuedResource
	bills    []*Bill
	faults   []string
	calls    map[string]int
	weather  faults
	world    world
	identity identity
	sink     string // topic to which the audit log publishes preemptions
	storage  string // URL of the server for buckets
	spark    spark
	work     sync.WaitGroup // running applications

	requested []Request
}

// New returns an empty project.
func New(cfg Config) (*Cloud, error) {
	if cfg.Project == "" {
		cfg.Project = "demo"
	}
	if len(cfg.Zones) == 0 {
		cfg.Zones = []string{"us-central1-a", "us-central1-b", "us-west1-a", "europe-west4-a", "europe-west4-b"}
	}
	if cfg.Run == nil {
		cfg.Run = func(context.Context, []string) sparkjob.Result { return sparkjob.Result{} }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Dir != "" {
		dir, err := filepath.Abs(cfg.Dir)
		if err != nil {
			return nil, err
		}
		cfg.Dir = dir
	}
	c := &Cloud{
		cfg: cfg, signer: sync.OnceValues(imdstest.NewGoogleAuthority), ended: make(chan struct{}),
		machines: map[string]*instance{}, ops: map[string]*operation{},
		requests: map[string]*operation{}, tpus: map[string]*tpuNode{}, queued: map[string]*queuedResource{},
		calls: map[string]int{}, weather: newWeather(), world: newWorld(cfg),
		identity: newIdentity(), spark: newSpark(),
	}
	c.pubsub = sync.OnceValue(func() *pubsub {
		c.opened.Store(true)
		return openPubSub()
	})
	return c, nil
}

// Close ends all machines and pushes.
func (c *Cloud) Close() {
	c.spark.stop()
	c.work.Wait()
	if c.opened.Load() {
		c.pubsub().close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		m.kill()
	}
	for _, n := range c.tpus {
		n.kill()
	}
}

// Faults returns the mismatches of requests and answers with Google's description.
func (c *Cloud) Faults() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.faults)
}

// Request is a request to Dataproc.
type Request struct {
	Method string // dataproc.projects.regions.clusters.create
	Body   []byte
}

// Requests returns the requests for these methods of Dataproc, or all if there are none.
func (c *Cloud) Requests(methods ...string) []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.requested), func(r Request) bool {
		return len(methods) > 0 && !slices.Contains(methods, r.Method)
	})
}

// Calls returns the number of calls of a method, such as compute.instances.bulkInsert.
func (c *Cloud) Calls(method string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[method]
}

// call is one request, as handlers see it.
type call struct {
	*http.Request
	method *method
	args   []string // values of the path's placeholders, in order
	body   []byte
}

// arg returns the i'th value in the path, or "" if there are fewer.
func (r *call) arg(i int) string {
	if i >= len(r.args) {
		return ""
	}
	return r.args[i]
}

// maxBody bounds a request.
const maxBody = 16 << 20

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path { // these are not APIs and have no description
	case "/oauth2/v3/certs":
		if signer, err := c.signer(); err == nil {
			signer.ServeHTTP(w, r)
		}
		return
	case "/token":
		c.token(w, r)
		return
	}
	if c.forwardObject(w, r) {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	m, args, err := find(r.Method, r.URL.Path)
	if err == nil {
		err = m.checkQuery(r.URL.Query())
	}
	if err == nil {
		err = m.checkBody("request", m.Request, body)
	}
	if err != nil {
		c.blame(err)
		write(w, http.StatusBadRequest, refusal(http.StatusBadRequest, "invalid", "%v", err), nil)
		return
	}
	text, refused, err := c.handle(&call{Request: r, method: m, args: args, body: body})
	if refused != nil {
		if refused.Code == lost {
			cut(w)
			return
		}
		write(w, refused.Code, refused.body(), refused.header())
		return
	}
	if err == nil {
		err = m.checkBody("answer", m.Response, text)
	}
	if err == nil && r.URL.Query().Get("fields") != "" {
		text, err = mask(text, r.URL.Query().Get("fields"))
	}
	if err != nil {
		c.blame(err)
		write(w, http.StatusInternalServerError, refusal(http.StatusInternalServerError, "emulator", "%v", err), nil)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_, _ = w.Write(text) //nolint:gosec // JSON, not a page
}

func (c *Cloud) blame(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, err.Error())
}

// cut closes the connection before an answer.
func cut(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			_ = conn.Close()
		}
	}
}

func write(w http.ResponseWriter, code int, body any, header http.Header) {
	for k, v := range header {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(code)
	var b bytes.Buffer
	_ = json.NewEncoder(&b).Encode(body)
	_, _ = w.Write(b.Bytes())
}

// handle executes a request and returns the answer. Every request advances all operations.
func (c *Cloud) handle(r *call) (json.RawMessage, *Fault, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[r.method.ID]++
	if strings.HasPrefix(r.method.ID, "dataproc.") {
		c.requested = append(c.requested, Request{r.method.ID, r.body})
	}
	c.progress()
	if f := c.refused(r); f != nil {
		return nil, f, nil
	}
	h, ok := handlers[r.method.ID]
	if ask := c.forwarder(r.method.ID); ask != nil && !ok { // another server answers, possibly slowly
		c.mu.Unlock()
		defer c.mu.Lock()
		return ask(r)
	}
	if !ok {
		return nil, &Fault{Code: http.StatusNotImplemented, Reason: "notImplemented", Message: r.method.ID}, nil
	}
	answer, f := h(c, r)
	if f == nil && c.weather.lose[r.method.ID] > 0 {
		c.weather.lose[r.method.ID]--
		return nil, &Fault{Code: lost}, nil
	}
	if f != nil {
		return nil, f, nil
	}
	text, err := json.Marshal(answer)
	return text, nil, err
}

// forwarder returns the function that forwards a method to another server, or nil.
func (c *Cloud) forwarder(method string) func(*call) (json.RawMessage, *Fault, error) {
	switch {
	case strings.HasPrefix(method, "pubsub."):
		return c.askPubSub
	case strings.HasPrefix(method, "storage."):
		return c.askStorage
	}
	return nil
}

// handlers are the methods that are emulated. All are called with the lock held.
var handlers = map[string]func(*Cloud, *call) (any, *Fault){
	"compute.instances.bulkInsert":             (*Cloud).bulkInsert,
	"compute.instances.list":                   (*Cloud).listInstances,
	"compute.instances.aggregatedList":         (*Cloud).aggregateInstances,
	"compute.instances.get":                    (*Cloud).getInstance,
	"compute.instances.delete":                 (*Cloud).deleteInstance,
	"compute.zoneOperations.get":               (*Cloud).getOperation,
	"compute.zoneOperations.wait":              (*Cloud).waitOperation,
	"compute.zoneOperations.list":              (*Cloud).listOperations,
	"compute.globalOperations.get":             (*Cloud).getOperation,
	"compute.globalOperations.wait":            (*Cloud).waitOperation,
	"compute.globalOperations.aggregatedList":  (*Cloud).aggregateOperations,
	"compute.machineTypes.get":                 (*Cloud).getMachineType,
	"compute.machineTypes.aggregatedList":      (*Cloud).aggregateMachineTypes,
	"compute.acceleratorTypes.aggregatedList":  (*Cloud).aggregateAcceleratorTypes,
	"compute.images.get":                       (*Cloud).getImage,
	"compute.images.getFromFamily":             (*Cloud).getImageFromFamily,
	"compute.regions.list":                     (*Cloud).listRegions,
	"compute.reservations.aggregatedList":      (*Cloud).aggregateReservations,
	"compute.regionCommitments.aggregatedList": (*Cloud).aggregateCommitments,
	"compute.projects.get":                     (*Cloud).getProject,
	"compute.networks.get":                     (*Cloud).getNetwork,
	"compute.networks.insert":                  (*Cloud).insertNetwork,
	"compute.networks.delete":                  (*Cloud).deleteNetwork,
	"compute.firewalls.get":                    (*Cloud).getFirewall,
	"compute.firewalls.insert":                 (*Cloud).insertFirewall,
	"compute.firewalls.delete":                 (*Cloud).deleteFirewall,

	"oauth2.userinfo.get":                              (*Cloud).userinfo,
	"cloudresourcemanager.projects.testIamPermissions": (*Cloud).testPermissions,
	"cloudresourcemanager.projects.get":                (*Cloud).crmProject,
	"cloudresourcemanager.projects.getIamPolicy":       (*Cloud).getPolicy,
	"cloudresourcemanager.projects.setIamPolicy":       (*Cloud).setPolicy,
	"serviceusage.services.get":                        (*Cloud).getService,
	"serviceusage.services.enable":                     (*Cloud).enableService,
	"iam.projects.serviceAccounts.get":                 (*Cloud).getAccount,
	"iam.projects.serviceAccounts.create":              (*Cloud).createAccount,
	"iam.projects.serviceAccounts.delete":              (*Cloud).deleteAccount,
	"iam.projects.serviceAccounts.getIamPolicy":        (*Cloud).getPolicy,
	"iam.projects.serviceAccounts.setIamPolicy":        (*Cloud).setPolicy,
	"iam.projects.serviceAccounts.testIamPermissions":  (*Cloud).granted,
	"iam.projects.roles.get":                           (*Cloud).getRole,
	"iam.projects.roles.create":                        (*Cloud).createRole,
	"iam.projects.roles.patch":                         (*Cloud).patchRole,
	"iam.projects.roles.delete":                        (*Cloud).deleteRole,
	"iam.projects.roles.undelete":                      (*Cloud).undeleteRole,

	"iam.projects.locations.workloadIdentityPools.get":              (*Cloud).getPool,
	"iam.projects.locations.workloadIdentityPools.create":           (*Cloud).createPool,
	"iam.projects.locations.workloadIdentityPools.delete":           (*Cloud).deletePool,
	"iam.projects.locations.workloadIdentityPools.undelete":         (*Cloud).undeletePool,
	"iam.projects.locations.workloadIdentityPools.providers.get":    (*Cloud).getProvider,
	"iam.projects.locations.workloadIdentityPools.providers.create": (*Cloud).createProvider,

	"pubsub.projects.topics.getIamPolicy":        (*Cloud).getPolicy,
	"pubsub.projects.topics.setIamPolicy":        (*Cloud).setPolicy,
	"pubsub.projects.subscriptions.getIamPolicy": (*Cloud).getPolicy,
	"pubsub.projects.subscriptions.setIamPolicy": (*Cloud).setPolicy,
	"storage.buckets.getIamPolicy":               (*Cloud).bucketPolicy,
	"storage.buckets.setIamPolicy":               (*Cloud).bucketPolicy,
	"storage.projects.serviceAccount.get":        (*Cloud).getStorageAgent,

	"logging.projects.sinks.get":    (*Cloud).getSink,
	"logging.projects.sinks.create": (*Cloud).createSink,
	"logging.projects.sinks.delete": (*Cloud).deleteSink,

	"cloudbilling.services.skus.list": (*Cloud).listSkus,

	"dataproc.projects.regions.clusters.create":   (*Cloud).createCluster,
	"dataproc.projects.regions.clusters.get":      (*Cloud).getCluster,
	"dataproc.projects.regions.clusters.list":     (*Cloud).listClusters,
	"dataproc.projects.regions.clusters.delete":   (*Cloud).deleteCluster,
	"dataproc.projects.regions.jobs.submit":       (*Cloud).submitJob,
	"dataproc.projects.regions.jobs.get":          (*Cloud).getJob,
	"dataproc.projects.regions.jobs.cancel":       (*Cloud).cancelJob,
	"dataproc.projects.locations.batches.create":  (*Cloud).createBatch,
	"dataproc.projects.locations.batches.get":     (*Cloud).getBatch,
	"dataproc.projects.locations.batches.list":    (*Cloud).listBatches,
	"dataproc.projects.locations.batches.delete":  (*Cloud).deleteBatch,
	"dataproc.projects.regions.operations.cancel": (*Cloud).cancelSparkOperation,

	"tpu.projects.locations.nodes.list":             (*Cloud).listNodes,
	"tpu.projects.locations.nodes.get":              (*Cloud).getNode,
	"tpu.projects.locations.nodes.delete":           (*Cloud).deleteNode,
	"tpu.projects.locations.queuedResources.create": (*Cloud).createQueued,
	"tpu.projects.locations.queuedResources.get":    (*Cloud).getQueued,
	"tpu.projects.locations.queuedResources.list":   (*Cloud).listQueued,
	"tpu.projects.locations.queuedResources.delete": (*Cloud).deleteQueued,
	"tpu.projects.locations.operations.get":         (*Cloud).getTPUOperation,
}

// number returns the next resource number.
func (c *Cloud) number() uint64 {
	c.serial++
	return 4_000_000_000_000_000_000 + c.serial
}

func (c *Cloud) now() string { return c.cfg.Now().Format("2006-01-02T15:04:05.000-07:00") }

// link returns the URL of a resource of the project.
func (c *Cloud) link(format string, args ...any) string {
	return "https://www.googleapis.com/compute/v1/projects/" + c.cfg.Project + "/" + fmt.Sprintf(format, args...)
}

// base returns the last part of a resource's URL.
func base(link string) string { return link[strings.LastIndexByte(link, '/')+1:] }

// region returns the region of a zone.
func region(zone string) string {
	if i := strings.LastIndexByte(zone, '-'); i > 0 {
		return zone[:i]
	}
	return zone
}

// page returns the requested page of a list; the default is 500 entries. next is empty for the last page.
func page[T any](r *call, all []T) (part []T, next string) {
	size, token := 500, 0
	for _, name := range []string{"maxResults", "pageSize"} {
		if n, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil && n > 0 {
			size = n
		}
	}
	if n, err := strconv.Atoi(r.URL.Query().Get("pageToken")); err == nil && n > 0 {
		token = n
	}
	all = all[min(token, len(all)):]
	if len(all) <= size {
		return all, ""
	}
	return all[:size], strconv.Itoa(token + size)
}
