package aws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Detail is the detail of an event on the bus: a bus.Message. One of Body, Text, Data and Ref is set, or none if the
// message has no body.
type Detail struct {
	ID        string     `json:"id"`
	Type      string     `json:"type"`
	Group     string     `json:"group,omitempty"`
	NotBefore *time.Time `json:"notBefore,omitempty"`
	// Body is the message's body if it is JSON that services can parse and write again without a change of any byte.
	Body json.RawMessage `json:"body,omitempty"`
	Text string          `json:"text,omitempty"` // any other text
	Data []byte          `json:"data,omitempty"` // anything else, in base64
	Ref  *Ref            `json:"ref,omitempty"`  // where a body that is too large is stored
}

// Ref is the reference to a large body.
type Ref struct {
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"` // of the body, in hexadecimal
}

// Limits of an event, in bytes.
const (
	// maxInline is the maximum size of a detail that is sent inline. EventBridge accepts 256 KB in a call and SQS 256
	// KB in a message, including EventBridge's envelope and a dead letter's attributes.
	maxInline = 240 << 10
	// maxExpansion is the factor by which a detail may grow when a service parses it and writes it again: a rune of
	// two bytes becomes \u00e9.
	maxExpansion = 3
	// maxCall is the maximum size of one PutEvents or SendMessageBatch, minus a small reserve.
	maxCall = 255 << 10
)

// latest is the last time that the format can express.
var latest = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// newDetail returns the detail of a message, with its body inline.
func newDetail(m *bus.Message) Detail {
	d := Detail{ID: m.ID, Type: m.Type, Group: m.Group}
	if !m.NotBefore.IsZero() {
		t := m.NotBefore.UTC()
		if t.After(latest) {
			t = latest
		}
		d.NotBefore = &t
	}
	switch {
	case len(m.Body) == 0:
	case minimal(m.Body):
		d.Body = m.Body
	case plain(m.Body):
		d.Text = string(m.Body)
	default:
		d.Data = m.Body
	}
	return d
}

// message returns the message of a detail. A body that is stored elsewhere is missing.
func (d *Detail) message() (bus.Message, error) {
	m := bus.Message{ID: d.ID, Type: d.Type, Group: d.Group}
	if d.NotBefore != nil {
		m.NotBefore = *d.NotBefore
	}
	switch {
	case len(d.Body) > 0:
		body, err := minimise(d.Body)
		if err != nil {
			return m, fmt.Errorf("body: %w", err)
		}
		m.Body = body
	case d.Text != "":
		m.Body = []byte(d.Text)
	case len(d.Data) > 0:
		m.Body = d.Data
	}
	return m, m.Validate()
}

// minimise writes JSON in its unique shortest form: no white space, strings and numbers as short as possible.
// Numbers are doubles, as most JSON parsers treat them.
func minimise(body []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(body))
	err := v.Format(jsontext.CanonicalizeRawInts(true), jsontext.CanonicalizeRawFloats(true))
	return v, err
}

// minimal reports whether body is JSON in its shortest form. For such a body, minimise restores the same bytes after
// a service has parsed and written it.
func minimal(body []byte) bool {
	short, err := minimise(body)
	return err == nil && bytes.Equal(short, body) && plain(body)
}

// plain reports whether SQS accepts a text in a message: UTF-8 with only the characters of XML 1.0.
func plain(text []byte) bool {
	return utf8.Valid(text) && !bytes.ContainsAny(text, "\ufffe\uffff")
}

// marshal writes the detail as JSON, without HTML escapes.
func (d *Detail) marshal() (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		return "", fmt.Errorf("%w: %w", bus.ErrInvalid, err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// inline reports whether a detail is small enough to be sent inline, even if services on the way rewrite it.
func inline(detail string) bool {
	if len(detail)*maxExpansion <= maxInline {
		return true
	}
	n := len(detail)
	for i := range len(detail) {
		switch c := detail[i]; {
		case c >= utf8.RuneSelf:
			n += maxExpansion - 1 // for each byte of the rune
		case c == ',' || c == ':':
			n++ // a space after it
		}
	}
	return n <= maxInline
}

// envelope is an event as EventBridge writes it, reduced to the fields used here.
type envelope struct {
	Version    string          `json:"version"`
	ID         string          `json:"id"`
	DetailType string          `json:"detail-type"`
	Source     string          `json:"source"`
	Account    string          `json:"account,omitempty"`
	Time       *time.Time      `json:"time,omitempty"`
	Region     string          `json:"region,omitempty"`
	Resources  []string        `json:"resources"`
	Detail     json.RawMessage `json:"detail"`
}

// enveloped writes a detail as EventBridge would put it into a queue, for messages that are sent there directly.
func enveloped(m *bus.Message, detail string, now time.Time) (string, error) {
	now = now.UTC().Truncate(time.Second)
	e := envelope{
		Version: "0", ID: m.ID, DetailType: m.Type, Source: Source, Time: &now, Resources: []string{},
		Detail: json.RawMessage(detail),
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&e); err != nil {
		return "", fmt.Errorf("%w: %w", bus.ErrInvalid, err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
