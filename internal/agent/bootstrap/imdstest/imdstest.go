// Package imdstest emulates the metadata service of one machine of EC2 (IMDSv2, Machine), Azure (AzureMachine) or
// Google Cloud (GoogleMachine), as far as the boot script, the agent's notices and its proof use it. Rehearsals use it
// to start machines as processes. It is not part of the product.
package imdstest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Machine is the machine that the service describes. Set the fields before the first request.
type Machine struct {
	ID          string // i-0abc
	LaunchIndex int
	Address     string // 127.0.0.2
	Region      string
	Zone        string // us-east-1a
	UserData    []byte
	Account     string     // ID of the owner's account
	Signer      *Authority // of its identity document; nil serves none

	mu     sync.Mutex
	action string
	taken  time.Time
}

// session is the only session token.
const session = "imds-session"

// Interrupt makes the service announce that the machine will be taken: instance-action terminate at a time (EC2 User
// Guide, "Spot Instance interruption notices").
func (m *Machine) Interrupt(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.action, m.taken = "terminate", at
}

// ServeHTTP answers as the service does. It refuses requests without a session token.
func (m *Machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/latest/api/token" {
		if r.Method != http.MethodPut || r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "" {
			http.Error(w, "Bad Request", http.StatusBadRequest)
			return
		}
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "600")
		_, _ = w.Write([]byte(session))
		return
	}
	if r.Header.Get("X-Aws-Ec2-Metadata-Token") != session {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	body, ok := m.answer(strings.TrimPrefix(r.URL.Path, "/latest/"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write([]byte(body)) //nolint:gosec // not a page
}

func (m *Machine) answer(path string) (string, bool) {
	switch strings.TrimSuffix(path, "/") {
	case "meta-data/instance-id":
		return m.ID, true
	case "meta-data/ami-launch-index":
		return strconv.Itoa(m.LaunchIndex), true
	case "meta-data/local-ipv4":
		return m.Address, true
	case "meta-data/placement/region":
		return m.Region, true
	case "meta-data/placement/availability-zone":
		return m.Zone, true
	case "dynamic/instance-identity/document":
		return string(m.Document()), m.Signer != nil
	case "dynamic/instance-identity/rsa2048":
		return m.Proof(), m.Signer != nil
	case "user-data":
		return string(m.UserData), len(m.UserData) > 0
	case "meta-data/spot/instance-action":
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.action == "" {
			return "", false
		}
		return document(map[string]string{"action": m.action, "time": m.taken.UTC().Format(time.RFC3339)}), true
	}
	return "", false
}

// document returns JSON in the service's format: one field per line.
func document(fields map[string]string) string {
	b, err := json.MarshalIndent(fields, "", "  ")
	if err != nil {
		return "{}"
	}
	return string(b)
}
