package imdstest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// AzureMachine is the machine that Azure's instance metadata service describes: instance metadata, Scheduled Events
// and attested data. Set the fields before the first request.
type AzureMachine struct {
	VMID         string // the machine's unique ID
	Name         string // name of its resource, which Scheduled Events use
	Address      string // 10.0.0.4
	Region       string
	Zone         string
	Subscription string
	Group        string          // its resource group
	Size         string          // Standard_D2s_v5
	Signer       *AzureAuthority // of attested documents; nil serves none

	mu          sync.Mutex
	incarnation int
	events      []event
}

// event is an event in the Scheduled Events document.
type event struct {
	EventID      string   `json:"EventId"`
	EventStatus  string   `json:"EventStatus"`
	EventType    string   `json:"EventType"`
	ResourceType string   `json:"ResourceType"`
	Resources    []string `json:"Resources"`
	NotBefore    string   `json:"NotBefore"`
	Description  string   `json:"Description"`
	EventSource  string   `json:"EventSource"`
	Duration     int      `json:"DurationInSeconds"`
}

// Preempt makes the service announce that the spot machine will be evicted at a time ("Azure Instance Metadata
// Service: Scheduled Events for Linux VMs": at least 30 seconds ahead).
func (m *AzureMachine) Preempt(at time.Time) { m.Schedule("Preempt", at) }

// Schedule makes the service announce an event of a type: Preempt, Freeze, Reboot, Redeploy or Terminate.
func (m *AzureMachine) Schedule(kind string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.incarnation++
	m.events = append(m.events, event{
		EventID: "5A9D3F6B-0000-0000-0000-" + strconv.Itoa(100000000000+m.incarnation), EventStatus: "Scheduled",
		EventType: kind, ResourceType: "VirtualMachine", Resources: []string{m.Name},
		NotBefore:   at.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"),
		Description: kind, EventSource: "Platform", Duration: -1,
	})
}

// ServeHTTP answers as the service does. It refuses requests without the header Metadata and requests from a proxy.
func (m *AzureMachine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch {
	case !strings.EqualFold(r.Header.Get("Metadata"), "true") || r.Header.Get("X-Forwarded-For") != "":
		refuse(w, "Bad request. Required metadata header not specified or it is not correct")
		return
	case query.Get("api-version") == "":
		refuse(w, "Bad request. api-version is invalid or was not specified in the request.")
		return
	}
	if leaf, ok := strings.CutPrefix(r.URL.Path, "/metadata/instance/"); ok {
		value, ok := m.values()[leaf]
		switch {
		case !ok:
			http.NotFound(w, r)
		case query.Get("format") != "text":
			refuse(w, "Bad request. A leaf node is to be asked for as text")
		default:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte(value)) //nolint:gosec // not a page
		}
		return
	}
	switch r.URL.Path {
	case "/metadata/scheduledevents":
		m.mu.Lock()
		document := map[string]any{"DocumentIncarnation": m.incarnation, "Events": append([]event{}, m.events...)}
		m.mu.Unlock()
		answer(w, document)
	case "/metadata/attested/document":
		if m.Signer == nil {
			http.NotFound(w, r)
			return
		}
		nonce := query.Get("nonce")
		if !digits.MatchString(nonce) {
			refuse(w, "Bad request. nonce must be a string of up to 10 digits")
			return
		}
		signature, err := m.Signer.Attest(m, nonce, time.Now())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, map[string]string{"encoding": "pkcs7", "signature": signature})
	default:
		http.NotFound(w, r)
	}
}

// digits matches the nonces that the documentation allows ("Azure Instance Metadata Service", "Attested data": an
// optional 10-digit string). The real service is known to accept up to 32 characters.
var digits = regexp.MustCompile(`^[0-9]{0,10}$`)

func (m *AzureMachine) values() map[string]string {
	return map[string]string{
		"compute/vmId": m.VMID, "compute/name": m.Name, "compute/location": m.Region, "compute/zone": m.Zone,
		"compute/subscriptionId": m.Subscription, "compute/resourceGroupName": m.Group, "compute/vmSize": m.Size,
		"network/interface/0/ipv4/ipAddress/0/privateIpAddress": m.Address,
	}
}

func refuse(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v)
}
