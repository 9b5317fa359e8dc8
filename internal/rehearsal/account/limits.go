package account

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A new account has low limits. The rehearsal has them by default.
const (
	// concurrency is the number of functions of the account that run at a time (AWS Lambda developer guide, "Lambda
	// quotas": "New AWS accounts have reduced concurrency"; 10 was seen).
	concurrency = 10
	// standardVCPUs is the quota of standard machines in a region, on demand and again on spot (Service Quotas,
	// "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances").
	standardVCPUs = 8
	// bucketReports is the time for which a new bucket sends no events (Amazon S3 User Guide, "Enabling Amazon
	// EventBridge").
	bucketReports = 5 * time.Minute
	// switching is the time that a mapping needs to change between on and off. Meanwhile it accepts no other change
	// (Lambda API reference, UpdateEventSourceMapping: ResourceInUseException).
	switching = 30 * time.Second
)

// running limits the functions that run at a time.
type running struct {
	mu        sync.Mutex
	now, most int
	throttled int
}

// admit reports whether another function may start. done is called when it has ended.
func (r *running) admit() (done func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now >= concurrency {
		r.throttled++
		return nil, false
	}
	r.now++
	r.most = max(r.most, r.now)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.now--
	}, true
}

// Concurrency returns how many functions have run at a time at most, and how many invocations were throttled.
func (w *World) Concurrency() (most, throttled int) {
	w.running.mu.Lock()
	defer w.running.mu.Unlock()
	return w.running.most, w.running.throttled
}

// bucket is a token bucket.
type bucket struct {
	tokens float64
	seen   time.Time
}

// requests throttles EC2's API, for each action and region (Amazon EC2 Developer Guide, "Request throttling for the
// Amazon EC2 API": DescribeHosts and other non-mutating actions have 100 tokens, and get 20 a second). Launches have
// fewer.
type requests struct {
	mu      sync.Mutex
	buckets map[string]*bucket
}

func (q *requests) admit(region, action string, now time.Time) bool {
	size, refill := 100.0, 20.0
	if action == "RunInstances" {
		size, refill = 5, 2
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.buckets == nil {
		q.buckets = map[string]*bucket{}
	}
	key := region + "/" + action
	b := q.buckets[key]
	if b == nil {
		b = &bucket{tokens: size, seen: now}
		q.buckets[key] = b
	}
	b.tokens = min(size, b.tokens+now.Sub(b.seen).Seconds()*refill)
	b.seen = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// quotas counts the vCPUs of the machines of each region and market.
type quotas struct {
	mu       sync.Mutex
	used     map[string]int   // by class
	machines map[string]owned // by ID
	refused  int
	raised   bool // the account has a sufficient quota of vCPUs
}

// owned is the part of a quota that a machine uses.
type owned struct {
	class string // empty: of a class without a limit here
	vcpus int
}

// standard has the first letters of the families of standard machines.
const standard = "acdhimrtz"

// classOf returns the quota that each machine of a launch uses, and the number of machines.
func classOf(region string, launch []byte) (owned, int) {
	form, err := url.ParseQuery(string(launch))
	family, size, ok := strings.Cut(form.Get("InstanceType"), ".")
	n, _ := strconv.Atoi(form.Get("MaxCount")) // required
	if err != nil || !ok || !strings.ContainsRune(standard, rune(family[0])) {
		return owned{}, n
	}
	market := "on-demand"
	if form.Get("InstanceMarketOptions.MarketType") == "spot" {
		market = "spot"
	}
	return owned{region + "/" + market, vcpusOf(size)}, n
}

// vcpusOf returns the vCPUs of a size of current standard families.
func vcpusOf(size string) int {
	number, large := strings.CutSuffix(size, "xlarge")
	n, err := strconv.Atoi(number)
	switch {
	case size == "medium":
		return 1
	case !large: // nano to large
		return 2
	case err != nil: // xlarge
		return 4
	}
	return 4 * n
}

// take reports whether a launch is within the quota, and reserves it.
func (q *quotas) take(each owned, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if each.class == "" {
		return true
	}
	if q.used == nil {
		q.used, q.machines = map[string]int{}, map[string]owned{}
	}
	if q.used[each.class]+n*each.vcpus > standardVCPUs && !q.raised {
		q.refused++
		return false
	}
	q.used[each.class] += n * each.vcpus
	return true
}

// bought replaces a reservation for n machines by those that were launched.
func (q *quotas) bought(each owned, n int, ids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if each.class == "" {
		return
	}
	q.used[each.class] -= (n - len(ids)) * each.vcpus
	for _, id := range ids {
		q.machines[id] = each
	}
}

// release frees the quota of an ended machine.
func (q *quotas) release(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m, ok := q.machines[id]; ok {
		q.used[m.class] -= m.vcpus
		delete(q.machines, id)
	}
}

// OverQuota returns how many launches were refused because they exceeded the account's quota of vCPUs.
func (p *Proxy) OverQuota() int {
	p.quotas.mu.Lock()
	defer p.quotas.mu.Unlock()
	return p.quotas.refused
}

// RaiseQuota grants the account a sufficient quota of vCPUs.
func (p *Proxy) RaiseQuota() {
	p.quotas.mu.Lock()
	defer p.quotas.mu.Unlock()
	p.quotas.raised = true
}

// overQuota answers a launch that exceeds the quota of vCPUs (EC2 API reference, "Error codes").
func overQuota(w http.ResponseWriter, each owned) {
	code, message := "VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit allows."
	if strings.HasSuffix(each.class, "/spot") {
		code, message = "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"
	}
	fail(w, "ec2", http.StatusBadRequest, code, message)
}

// launching is the key of a launch in the context of its request.
type launching struct{}

// launch is what a request would buy.
type launch struct {
	each    owned
	n       int
	settled bool // the answer has been counted
}

// abandon gives the reservation of a launch back that had no answer: its caller was killed.
func (q *quotas) abandon(l *launch) {
	if !l.settled {
		q.bought(l.each, l.n, nil)
	}
}

var instanceID = regexp.MustCompile(`<instanceId>(i-[0-9a-f]+)</instanceId>`)

// countLaunched counts the machines in the answer to a launch.
func (p *Proxy) countLaunched(r *http.Request, answer []byte) {
	l, ok := r.Context().Value(launching{}).(*launch)
	if !ok {
		return
	}
	l.settled = true
	var ids []string
	for _, m := range instanceID.FindAllSubmatch(answer, -1) {
		ids = append(ids, string(m[1]))
	}
	p.quotas.bought(l.each, l.n, ids)
}
