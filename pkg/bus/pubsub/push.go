package pubsub

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
)

// Errors of the decoders. Both are final: the push endpoint answers with success, so that Pub/Sub does not deliver
// again.
var (
	// ErrMalformed means that the input is not what Pub/Sub, or Google's audit log, writes.
	ErrMalformed = errors.New("pubsub: malformed push")
	// ErrForeign is returned for a log entry of something other than a preemption.
	ErrForeign = errors.New("pubsub: not a preemption")
)

// Push is a message that Pub/Sub has pushed. The push endpoint must verify the push's token (Pub/Sub, "Authentication
// for push subscriptions") before it decodes the message.
type Push struct {
	Subscription string
	MessageID    string
	Attributes   map[string]string
	Data         []byte
	Published    time.Time
}

// DecodePush reads the body of a push request. It fails with ErrMalformed.
func DecodePush(body []byte) (Push, error) {
	var in struct {
		Subscription string `json:"subscription"`
		Message      struct {
			Data       []byte            `json:"data"` // base64
			Attributes map[string]string `json:"attributes"`
			MessageID  string            `json:"messageId"`
			Published  time.Time         `json:"publishTime"`
		} `json:"message"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Push{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if in.Message.MessageID == "" {
		return Push{}, fmt.Errorf("%w: no message.messageId", ErrMalformed)
	}
	return Push{
		Subscription: in.Subscription, MessageID: in.Message.MessageID, Attributes: in.Message.Attributes,
		Data: in.Message.Data, Published: in.Message.Published,
	}, nil
}

// Preemption is a report that Compute Engine has preempted a machine.
type Preemption struct {
	ID       string // of the log entry; repeated deliveries have the same
	Project  string
	Zone     string // us-central1-a
	Instance string // its name
	Number   string // Compute Engine's numeric ID of the machine
	At       time.Time
}

// preempted is the method name in log entries of preemptions (Compute Engine, "Handle preemption": audit log of system
// events).
const preempted = "compute.instances.preempted"

// DecodePreemption reads an entry of Compute Engine's audit log that a log sink has published. It fails with
// ErrMalformed, or with ErrForeign if the entry is not about a preemption.
func DecodePreemption(entry []byte) (Preemption, error) {
	var in struct {
		InsertID string    `json:"insertId"`
		Time     time.Time `json:"timestamp"`
		Payload  struct {
			Service  string `json:"serviceName"`
			Method   string `json:"methodName"`
			Resource string `json:"resourceName"`
		} `json:"protoPayload"`
		Resource struct {
			Labels struct {
				Instance string `json:"instance_id"`
			} `json:"labels"`
		} `json:"resource"`
	}
	if err := json.Unmarshal(entry, &in); err != nil {
		return Preemption{}, fmt.Errorf("%w: log entry: %w", ErrMalformed, err)
	}
	if in.Payload.Service != "compute.googleapis.com" || in.Payload.Method != preempted {
		return Preemption{}, fmt.Errorf("%w: %.80q of %.80q", ErrForeign, in.Payload.Method, in.Payload.Service)
	}
	// projects/P/zones/Z/instances/I
	part := strings.Split(in.Payload.Resource, "/")
	if len(part) != 6 || part[0] != "projects" || part[2] != "zones" || part[4] != "instances" || part[1] == "" ||
		part[3] == "" || part[5] == "" {
		return Preemption{}, fmt.Errorf("%w: resourceName %.200q", ErrMalformed, in.Payload.Resource)
	}
	if in.InsertID == "" || in.Time.IsZero() {
		return Preemption{}, fmt.Errorf("%w: a log entry without insertId or timestamp", ErrMalformed)
	}
	return Preemption{ID: in.InsertID, Project: part[1], Zone: part[3], Instance: part[5],
		Number: in.Resource.Labels.Instance, At: in.Time}, nil
}

// Event returns the preemption as an event, given the cluster and the job of the machine. Its kind is "taken": Google
// writes the log entry while it stops the machine, after the notice of 30 seconds that the machine's agent reports.
func (p Preemption) Event(cluster, job string) events.Event {
	return events.New("gcp/"+p.Project+"/"+p.ID, "gcp/compute", p.At, events.SpotInterrupted{
		Cluster: cluster, Job: job, Machine: p.Instance, Kind: "taken", At: p.At,
	})
}
