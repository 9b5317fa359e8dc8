package gce

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is Google's error for a call or an operation.
type Fault struct {
	Code       int    // HTTP status; 0 means 400
	Reason     string // "quotaExceeded"; for an operation its code: "ZONE_RESOURCE_POOL_EXHAUSTED"
	Status     string // for newer APIs: "PERMISSION_DENIED"
	Message    string
	RetryAfter time.Duration
	Info       *ErrorInfo
	Quota      bool // the details have a google.rpc.QuotaFailure
}

// ErrorInfo is google.rpc.ErrorInfo.
type ErrorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// lost is the Code of an answer that does not arrive.
const lost = -1

func refusal(code int, reason, format string, args ...any) any {
	return (&Fault{Code: code, Reason: reason, Message: fmt.Sprintf(format, args...)}).body()
}

func notFound(format string, args ...any) *Fault {
	return &Fault{Code: http.StatusNotFound, Reason: "notFound", Status: "NOT_FOUND",
		Message: fmt.Sprintf("The resource '"+format+"' was not found", args...)}
}

func invalid(format string, args ...any) *Fault {
	return &Fault{Code: http.StatusBadRequest, Reason: "invalid", Message: fmt.Sprintf(format, args...)}
}

// body returns the error in Google's format (Google API design guide, "Errors").
func (f *Fault) body() any {
	e := map[string]any{
		"code": f.Code, "message": f.Message,
		"errors": []map[string]string{{"message": f.Message, "domain": "global", "reason": f.Reason}},
	}
	if f.Status != "" {
		e["status"] = f.Status
	}
	if f.Info != nil {
		info := *f.Info
		info.Type = "type.googleapis.com/google.rpc.ErrorInfo"
		e["details"] = []ErrorInfo{info}
	}
	if f.Quota {
		e["details"] = []map[string]any{{"@type": "type.googleapis.com/google.rpc.QuotaFailure",
			"violations": []map[string]string{{"subject": "project", "description": f.Message}}}}
	}
	return map[string]any{"error": e}
}

func (f *Fault) header() http.Header {
	h := http.Header{}
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
	}
	return h
}

// faults holds the injected failures.
type faults struct {
	refuse map[string][]Fault // by method, one for each call
	lose   map[string]int     // by method, number of lost answers
	off    map[string]bool    // services: compute.googleapis.com
	denied map[string]bool    // permissions
	skew   time.Duration      // how far Google's clock is ahead
	dry    map[string]bool    // zone, or zone/machine type
	once   map[string]bool    // entries of dry that fail at once
	late   []Fault            // errors of operations that buy, one for each
	litter int                // machines that a failed operation leaves behind
	lag    int                // number of lists that lack a new machine
	steps  int                // requests until an operation is done
	early  int                // number of waits that end before the operation
	silent map[string]bool    // zones that do not answer lists
	down   map[string]bool    // regions
	why    string             // the message of the next failed requests for TPUs; empty is a lack of capacity
	failed int                // number of next requests for TPUs that fail
	users  bool               // the callers are users of gcloud, and their calls are charged to gcloud's project
	slow   int                // number of calls that do not know a new service or account yet
}

// defaultSteps is the number of requests until an operation is done without a wait.
const defaultSteps = 3

func newWeather() faults {
	return faults{
		refuse: map[string][]Fault{}, lose: map[string]int{}, off: map[string]bool{}, denied: map[string]bool{},
		dry: map[string]bool{}, once: map[string]bool{}, silent: map[string]bool{}, down: map[string]bool{},
		steps: defaultSteps,
	}
}

func (c *Cloud) setFaults(f func(*faults)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.weather)
}

// Refuse makes the next call of a method (compute.instances.bulkInsert) fail.
func (c *Cloud) Refuse(method string, f Fault) {
	c.setFaults(func(w *faults) { w.refuse[method] = append(w.refuse[method], f) })
}

// Lose makes the next call of a method succeed but lose its answer.
func (c *Cloud) Lose(method string) { c.setFaults(func(w *faults) { w.lose[method]++ }) }

// Disable switches a service (compute.googleapis.com) off, or on again.
func (c *Cloud) Disable(service string, off bool) {
	c.setFaults(func(w *faults) { w.off[service] = off })
}

// DisableService disables an enabled service, as `gcloud services disable` does.
func (c *Cloud) DisableService(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.identity.enabled, name)
}

// Deny revokes a permission (compute.instances.create), or restores it.
func (c *Cloud) Deny(permission string, no bool) {
	c.setFaults(func(w *faults) { w.denied[permission] = no })
}

// Skew sets how far Google's clock is ahead of this machine's.
func (c *Cloud) Skew(d time.Duration) { c.setFaults(func(w *faults) { w.skew = d }) }

// SetOutOfStock makes a zone ("us-central1-a"), or a machine type in it ("us-central1-a/n2-standard-8"), run out of
// machines, or ends that. The error comes late, in the operation, unless atOnce is set.
func (c *Cloud) SetOutOfStock(what string, dry, atOnce bool) {
	c.setFaults(func(w *faults) { w.dry[what], w.once[what] = dry, dry && atOnce })
}

// FailLate makes the next operation that buys fail after some of its machines exist. litter of them remain;
// Google itself undoes the others.
func (c *Cloud) FailLate(f Fault, litter int) {
	c.setFaults(func(w *faults) { w.late, w.litter = append(w.late, f), litter })
}

// Lag makes each new machine missing from its first lists.
func (c *Cloud) Lag(lists int) { c.setFaults(func(w *faults) { w.lag = lists }) }

// EndWaits makes the next n waits end before their operations.
func (c *Cloud) EndWaits(n int) { c.setFaults(func(w *faults) { w.early = n }) }

// Down makes lists show a region as down.
func (c *Cloud) Down(region string) { c.setFaults(func(w *faults) { w.down[region] = true }) }

// SetUnreachable makes lists report a zone as unreachable, or ends that.
func (c *Cloud) SetUnreachable(zone string, silent bool) {
	c.setFaults(func(w *faults) { w.silent[zone] = silent })
}

// Propagate makes each service that is enabled from now on refuse its first calls, and each new service account be
// unknown to the first lookup, to its first policy and to the first policy that names it, n times each: changes of IAM
// and of services take effect with time (IAM documentation, "Access change propagation"; for the answers,
// github.com/hashicorp/terraform-provider-google issue 15042 and github.com/hashicorp/vault-plugin-secrets-gcp issue
// 237).
func (c *Cloud) Propagate(n int) { c.setFaults(func(w *faults) { w.slow = n }) }

// clientBased are services that charge their calls to the caller's project, not to that of the resource.
var clientBased = []string{"cloudbilling.googleapis.com", "cloudresourcemanager.googleapis.com"}

// Users makes callers be users with credentials of gcloud: client-based services refuse calls without a quota project,
// which they would charge to gcloud's own project (Google Cloud documentation, "Troubleshoot your ADC setup", "User
// credentials not working").
func (c *Cloud) Users(users bool) { c.setFaults(func(w *faults) { w.users = users }) }

// unsettled counts down the calls for which something new is still unknown. Callers hold the lock.
func (c *Cloud) unsettled(what string) bool {
	if c.identity.news[what] == 0 {
		return false
	}
	c.identity.news[what]--
	return true
}

// permissions that methods need (Compute Engine documentation, "IAM roles and permissions").
var permissions = map[string]string{
	"compute.instances.bulkInsert":     "compute.instances.create",
	"compute.instances.delete":         "compute.instances.delete",
	"compute.instances.list":           "compute.instances.list",
	"compute.instances.aggregatedList": "compute.instances.list",
	"compute.projects.get":             "compute.projects.get",
	"compute.machineTypes.get":         "compute.machineTypes.get",
	"compute.regions.list":             "compute.regions.list",
	"compute.zoneOperations.wait":      "compute.zoneOperations.get",
}

// publicImages are the projects with public images.
var publicImages = []string{"debian-cloud", "deeplearning-platform-release"}

// lacksImage returns an error if an image is not public and the permission on it is denied.
func (c *Cloud) lacksImage(permission, project, name string) *Fault {
	if !c.weather.denied[permission] || slices.Contains(publicImages, project) {
		return nil
	}
	return &Fault{Code: http.StatusForbidden, Reason: "forbidden", Status: "PERMISSION_DENIED",
		Message: fmt.Sprintf("Required '%s' permission for 'projects/%s/global/images/%s'", permission, project, name)}
}

// disabled is the error of a service that is off in the project that is charged for a call.
func disabled(service, consumer string) *Fault {
	return &Fault{
		Code: http.StatusForbidden, Reason: "accessNotConfigured", Status: "PERMISSION_DENIED",
		Message: "Compute Engine API has not been used in project " + base(consumer) + " before or it is disabled.",
		Info: &ErrorInfo{Reason: "SERVICE_DISABLED", Domain: "googleapis.com", Metadata: map[string]string{
			"service": service, "consumer": consumer,
		}},
	}
}

// refused returns the error of a call that is rejected before it is handled, or nil.
func (c *Cloud) refused(r *call) *Fault {
	w := &c.weather
	if f := c.tokenFault(r.Header.Get("Authorization")); f != nil {
		return f
	}
	service := strings.SplitN(r.method.ID, ".", 2)[0] + ".googleapis.com"
	if w.users && slices.Contains(clientBased, service) && r.Header.Get("X-Goog-User-Project") != c.cfg.Project {
		return disabled(service, "projects/764086051850")
	}
	if w.off[service] || c.unsettled(service) {
		return disabled(service, "projects/"+c.cfg.Project)
	}
	if p := permissions[r.method.ID]; w.denied[p] {
		return &Fault{Code: http.StatusForbidden, Reason: "forbidden", Status: "PERMISSION_DENIED",
			Message: fmt.Sprintf("Required '%s' permission for 'projects/%s'", p, c.cfg.Project)}
	}
	if next := w.refuse[r.method.ID]; len(next) > 0 {
		w.refuse[r.method.ID] = next[1:]
		f := next[0]
		return &f
	}
	project := r.arg(0)
	public := strings.HasPrefix(r.method.ID, "compute.images.") // in any project
	if strings.HasPrefix(r.method.ID, "compute.") && !public && project != c.cfg.Project {
		return notFound("projects/%s", project)
	}
	return nil
}

// deniedNames returns the permissions that were revoked.
func (c *Cloud) deniedNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.weather.denied)), func(p string) bool {
		return !c.weather.denied[p]
	})
}

// FailTPUs makes the next n requests for TPUs fail, as if no TPUs became available in time.
func (c *Cloud) FailTPUs(n int) { c.setFaults(func(w *faults) { w.failed = n }) }

// FailTPUsWith makes the next request for TPUs fail with a message.
func (c *Cloud) FailTPUsWith(message string) {
	c.setFaults(func(w *faults) { w.failed, w.why = 1, message })
}

// Forget makes Google forget all request IDs.
func (c *Cloud) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.requests)
}

// HideMachines makes the next lists lack all current machines.
func (c *Cloud) HideMachines(lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		m.hidden = lists
	}
}
