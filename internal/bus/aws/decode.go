package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// ErrUnreadable means that the body of an SQS message is not a message of this deployment. A retry does not help.
var ErrUnreadable = errors.New("aws: unreadable message")

// Kind is the origin of the body of an SQS message.
type Kind int

// Kinds of bodies.
const (
	Own        Kind = iota + 1 // a message that a Bus published
	CloudEvent                 // a bare CloudEvents envelope, as EventBridge Scheduler sends it
	External                   // an event of AWS itself, or of another application
)

// Envelope is the result of Decode.
type Envelope struct {
	Kind Kind
	// Message is set for Ours and CloudEvent. If Ref is set, Body is missing and is stored at Ref.
	Message bus.Message
	Ref     *Ref
	Foreign Foreign // set for Others
}

// Foreign is an event as EventBridge delivers it, unchanged.
type Foreign struct {
	ID         string // unique for each event of a source
	Source     string // for example aws.s3, aws.ec2, aws.scheduler
	DetailType string // for example Object Created
	Account    string
	Region     string
	Time       time.Time
	Resources  []string
	Detail     json.RawMessage // usually an object; a string for aws.scheduler
	Raw        []byte          // the whole envelope
}

// Decode reads the body of an SQS message of a deployment's queue. It makes no requests: Bus.Load fetches a body that
// is stored elsewhere. It fails with ErrUnreadable.
func Decode(body []byte) (Envelope, error) {
	var e struct {
		envelope
		SpecVersion string `json:"specversion"`
		Type        string `json:"type"`
		Subject     string `json:"subject"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	switch {
	case e.SpecVersion != "":
		m := bus.Message{ID: e.ID, Type: e.Type, Group: e.Subject, Body: body}
		if err := m.Validate(); err != nil {
			return Envelope{}, fmt.Errorf("%w: CloudEvents envelope: %w", ErrUnreadable, err)
		}
		return Envelope{Kind: CloudEvent, Message: m}, nil
	case e.Source == Source:
		return decodeOurs(e.Detail)
	case e.Source == "" || e.DetailType == "" || e.ID == "":
		return Envelope{}, fmt.Errorf("%w: neither an EventBridge nor a CloudEvents envelope", ErrUnreadable)
	}
	f := Foreign{
		ID: e.ID, Source: e.Source, DetailType: e.DetailType, Account: e.Account, Region: e.Region,
		Resources: e.Resources, Detail: e.Detail, Raw: body,
	}
	if e.Time != nil {
		f.Time = *e.Time
	}
	return Envelope{Kind: External, Foreign: f}, nil
}

func decodeOurs(raw json.RawMessage) (Envelope, error) {
	var d Detail
	if err := json.Unmarshal(raw, &d); err != nil {
		return Envelope{}, fmt.Errorf("%w: detail: %w", ErrUnreadable, err)
	}
	m, err := d.message()
	if err != nil {
		return Envelope{}, fmt.Errorf("%w: detail: %w", ErrUnreadable, err)
	}
	if d.Ref != nil && (d.Ref.Key == "" || d.Ref.Bytes < 1 || d.Ref.Bytes > bus.MaxMessageBytes || len(m.Body) > 0) {
		return Envelope{}, fmt.Errorf("%w: bad reference %+v", ErrUnreadable, *d.Ref)
	}
	return Envelope{Kind: Own, Message: m, Ref: d.Ref}, nil
}
