package events

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	json "github.com/go-json-experiment/json/v1"
)

// Errors of Parse. All are permanent: a message with such an error becomes a dead letter.
var (
	ErrMalformed   = errors.New("events: not a CloudEvents 1.0 JSON envelope of a Tradewind event")
	ErrUnknownType = errors.New("events: unknown type")
	ErrNewerFormat = errors.New("events: a newer version sent it in a format that this one cannot read")
)

// Format is the highest format of events that this version reads. An event states its format in the extension
// attribute "format"; without it, the format is 1. Consumers ignore unknown fields, so a new field needs no new
// format. A change that consumers would misread needs one.
const Format = 1

// Event is an envelope with its payload.
type Event struct {
	ID     string
	Source string // the emitter: tradewind/<function>
	Time   time.Time
	Data   Data

	envelope *event.Event               // as received: keeps extension attributes
	payload  map[string]json.RawMessage // as received: keeps unknown fields
}

// New returns an event. Its ID is unique for its source. Emitters derive it from the cause of the event, so that a
// repeated decision emits the same event.
func New(id, source string, at time.Time, data Data) Event {
	return Event{ID: id, Source: source, Time: at, Data: data}
}

// Type returns the CloudEvents type of the payload.
func (e Event) Type() string { return e.Data.Type() }

// MarshalJSON returns the CloudEvents 1.0 JSON envelope. It keeps unknown attributes and fields of a parsed event.
func (e Event) MarshalJSON() ([]byte, error) {
	data, err := e.marshalData()
	if err != nil {
		return nil, fmt.Errorf("events: %s: %w", e.Data.Type(), err)
	}
	if body, ok := e.marshalPlain(data); ok {
		return body, nil
	}
	return e.marshalAny(data)
}

// marshalAny writes any CloudEvent.
func (e Event) marshalAny(data []byte) ([]byte, error) {
	ce := event.New()
	if e.envelope != nil {
		ce = e.envelope.Clone()
	}
	ce.SetID(e.ID)
	ce.SetSource(e.Source)
	ce.SetType(e.Data.Type())
	ce.SetSubject(e.Data.Subject())
	ce.SetTime(e.Time)
	ce.SetDataContentType(event.ApplicationJSON)
	ce.DataEncoded = data
	body, err := ce.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("events: %s: %w", e.Data.Type(), err)
	}
	return body, nil
}

func (e Event) marshalData() ([]byte, error) {
	known, err := json.Marshal(e.Data)
	if err != nil || len(e.payload) == 0 {
		return known, err
	}
	merged := maps.Clone(e.payload)
	if err := json.Unmarshal(known, &merged); err != nil {
		return nil, err
	}
	return json.Marshal(merged)
}

// Parse reads an envelope. Its error wraps ErrMalformed or ErrUnknownType and describes the fault.
func Parse(body []byte) (Event, error) {
	if e, ok := parsePlain(body); ok {
		return e, nil
	}
	return parseAny(body)
}

// parseAny reads any CloudEvent.
func parseAny(body []byte) (Event, error) {
	var ce event.Event
	if err := ce.UnmarshalJSON(body); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := ce.Validate(); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if ce.SpecVersion() != event.CloudEventsVersionV1 {
		return Event{}, fmt.Errorf("%w: specversion %q", ErrMalformed, ce.SpecVersion())
	}
	if format, err := types.ToInteger(ce.Extensions()["format"]); err == nil && format > Format {
		return Event{}, fmt.Errorf("%w (format %d, not above %d)", ErrNewerFormat, format, Format)
	}
	known, ok := registry()[ce.Type()]
	if !ok {
		return Event{}, fmt.Errorf("%w %q", ErrUnknownType, ce.Type())
	}
	raw := ce.Data()
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	target := reflect.New(reflect.TypeOf(known.zero))
	if err := json.Unmarshal(raw, target.Interface()); err != nil {
		return Event{}, fmt.Errorf("%w: data of %s: %w", ErrMalformed, ce.Type(), err)
	}
	data, ok := target.Elem().Interface().(Data)
	if !ok {
		return Event{}, fmt.Errorf("%w: data of %s", ErrMalformed, ce.Type())
	}
	out := Event{ID: ce.ID(), Source: ce.Source(), Time: ce.Time(), Data: data}
	out.keepUnknown(&ce, raw, known.fields)
	return out, nil
}

// keepUnknown keeps the received envelope only if it has fields that the type lacks.
func (e *Event) keepUnknown(ce *event.Event, raw []byte, known map[string]struct{}) {
	if len(ce.Extensions()) > 0 {
		e.envelope = ce
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return
	}
	for name := range fields {
		if _, ok := known[name]; ok {
			delete(fields, name)
		}
	}
	if len(fields) > 0 {
		e.payload = fields
	}
}
