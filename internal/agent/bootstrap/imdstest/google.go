package imdstest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GoogleMachine is the machine that Google's metadata server describes: its identity, whether it is being preempted or
// its host maintained, and its signed identity token (Compute Engine documentation, "VM metadata", "Verify the
// identity of VMs"). Set the fields before the first request.
type GoogleMachine struct {
	ID         string // the number that Google assigned
	Name       string // tw-…-0
	Address    string // 127.0.0.2
	Project    string // its ID
	Zone       string // us-central1-a
	Attributes map[string]string
	// ServiceAccount is the e-mail address of the machine's service account. If it is empty, the machine has no
	// account, and the server no tokens.
	ServiceAccount string
	Signer         *GoogleAuthority // of its identity tokens

	mu      sync.Mutex
	taken   bool
	event   string        // of maintenance; empty is NONE
	changed chan struct{} // closed and replaced when a value changes
}

// projectNumber is the project number in paths. It is the same for all projects.
const projectNumber = "100000000001"

// Preempt makes the server report that the machine is being taken. It answers waiting requests at once.
func (m *GoogleMachine) Preempt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken = true
	m.notify()
}

// Maintain makes the server report a maintenance event of the host: TERMINATE_ON_HOST_MAINTENANCE,
// MIGRATE_ON_HOST_MAINTENANCE or NONE. It answers waiting requests at once.
func (m *GoogleMachine) Maintain(event string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.event = event
	m.notify()
}

// notify wakes the waiting requests. The caller holds the lock.
func (m *GoogleMachine) notify() {
	close(m.change())
	m.changed = nil
}

// change returns the channel that is closed at the next change of a value. The caller holds the lock.
func (m *GoogleMachine) change() chan struct{} {
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

func (m *GoogleMachine) preempted() string { return strings.ToUpper(strconv.FormatBool(m.taken)) }

func (m *GoogleMachine) maintenance() string { return cmp.Or(m.event, "NONE") }

// now returns a value, and the channel that is closed when it changes.
func (m *GoogleMachine) now(value func() string) (string, chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return value(), m.change()
}

// ServeHTTP answers as the server does. It refuses requests without its header and requests from a proxy.
func (m *GoogleMachine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Metadata-Flavor", "Google")
	if r.Header.Get("Metadata-Flavor") != "Google" || r.Header.Get("X-Forwarded-For") != "" {
		http.Error(w, "Missing required header: Metadata-Flavor", http.StatusForbidden)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/computeMetadata/v1/")
	if !ok || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	body, ok := m.answer(path, r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Etag", etag(body))
	_, _ = w.Write([]byte(body)) //nolint:gosec // not a page
}

func etag(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:8])
}

func (m *GoogleMachine) answer(path string, r *http.Request) (string, bool) {
	if name, ok := strings.CutPrefix(path, "instance/attributes/"); ok {
		v, known := m.Attributes[name]
		return v, known
	}
	switch strings.TrimSuffix(path, "/") {
	case "project/project-id":
		return m.Project, true
	case "project/numeric-project-id":
		return projectNumber, true
	case "instance/id":
		return m.ID, true
	case "instance/name":
		return m.Name, true
	case "instance/zone":
		return "projects/" + projectNumber + "/zones/" + m.Zone, true
	case "instance/network-interfaces/0/ip":
		return m.Address, true
	case "instance/preempted":
		return m.await(r, m.preempted), true
	case "instance/maintenance-event":
		return m.await(r, m.maintenance), true
	case "instance/service-accounts/default/email":
		return m.ServiceAccount, m.ServiceAccount != ""
	case "instance/service-accounts/default/identity":
		q := r.URL.Query()
		if m.ServiceAccount == "" || m.Signer == nil || q.Get("audience") == "" {
			return "", false
		}
		return m.Signer.Token(m, q.Get("audience"), q.Get("format") == "full"), true
	}
	return "", false
}

// maxHold is the maximum time that a request is held.
const maxHold = 10 * time.Minute

// await answers when the value differs from the one that the client saw last, or when the client's timeout ends.
func (m *GoogleMachine) await(r *http.Request, read func() string) string {
	q := r.URL.Query()
	value, changed := m.now(read)
	if last := q.Get("last_etag"); q.Get("wait_for_change") != "true" || last != "" && last != etag(value) {
		return value
	}
	hold := maxHold
	if s, err := strconv.Atoi(q.Get("timeout_sec")); err == nil && s > 0 {
		hold = min(time.Duration(s)*time.Second, maxHold)
	}
	timer := time.NewTimer(hold)
	defer timer.Stop()
	for before := value; value == before; {
		select {
		case <-changed:
			value, changed = m.now(read)
		case <-timer.C:
			return value
		case <-r.Context().Done():
			return value
		}
	}
	return value
}
