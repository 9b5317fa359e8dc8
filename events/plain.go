package events

import (
	"bytes"
	"reflect"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	json "github.com/go-json-experiment/json/v1"
)

// plain is an envelope as Tradewind itself writes it: without extension attributes, and with only text that JSON does
// not escape. It is written and read in a fraction of the time that a general CloudEvent takes.
type plain struct {
	id, source, kind, subject string
	at                        time.Time
	data                      []byte
}

// plainParts are the texts before each attribute.
var plainParts = [...]string{
	`{"specversion":"1.0","id":"`, `","source":"`, `","type":"`, `","subject":"`,
	`","datacontenttype":"application/json","time":"`, `","data":`,
}

// valid reports whether the general writer and reader would leave the envelope unchanged.
func (p *plain) valid() bool {
	for _, s := range []string{p.id, p.subject} {
		if s == "" || strings.TrimSpace(s) != s || !unescaped(s) {
			return false
		}
	}
	return p.source != "" && isPath(p.source) && unescaped(p.kind) && !p.at.IsZero() && len(p.data) > 0 &&
		p.data[0] == '{'
}

// unescaped reports whether JSON does not escape any character of a text.
func unescaped(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// isPath reports whether a source has only the characters of Tradewind's sources, which make it a URI reference.
func isPath(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '/' {
			return false
		}
	}
	return true
}

// marshalPlain writes a plain event. It reports false if the event is not plain.
func (e Event) marshalPlain(data []byte) ([]byte, bool) {
	p := plain{e.ID, e.Source, e.Data.Type(), e.Data.Subject(), e.Time.UTC(), data}
	at, err := p.at.AppendText(make([]byte, 0, len(time.RFC3339Nano)))
	if err != nil || e.envelope != nil || !p.valid() {
		return nil, false
	}
	body := make([]byte, 0, 256+len(p.id)+len(p.subject)+len(data))
	for i, attribute := range []string{p.id, p.source, p.kind, p.subject, string(at)} {
		body = append(append(body, plainParts[i]...), attribute...)
	}
	body = append(append(body, plainParts[len(plainParts)-1]...), data...)
	return append(body, '}'), true
}

// parsePlain reads envelopes that marshalPlain has written. For all others it returns false. parseAny then keeps
// unknown fields or returns an error.
func parsePlain(body []byte) (Event, bool) {
	var p plain
	attributes := [...]*string{&p.id, &p.source, &p.kind, &p.subject, nil}
	for i, attribute := range attributes {
		rest, ok := bytes.CutPrefix(body, []byte(plainParts[i]))
		end := bytes.IndexByte(rest, '"')
		if !ok || end < 0 {
			return Event{}, false
		}
		if attribute != nil {
			*attribute = string(rest[:end])
		} else if p.at.UnmarshalText(rest[:end]) != nil {
			return Event{}, false
		}
		body = rest[end:]
	}
	data, ok := bytes.CutPrefix(body, []byte(plainParts[len(plainParts)-1]))
	p.data, _ = bytes.CutSuffix(data, []byte("}"))
	known, found := registry()[p.kind]
	if !ok || !found || len(p.data) == len(data) || !p.valid() {
		return Event{}, false
	}
	target := reflect.New(reflect.TypeOf(known.zero))
	if jsonv2.Unmarshal(p.data, target.Interface(), exact) != nil {
		return Event{}, false
	}
	of, ok := target.Elem().Interface().(Data)
	return Event{ID: p.id, Source: p.source, Time: p.at, Data: of}, ok
}

// exact reads a payload strictly and in one pass.
var exact = jsonv2.JoinOptions(json.DefaultOptionsV1(), json.ReportErrorsWithLegacySemantics(false),
	jsonv2.MatchCaseInsensitiveNames(false), jsonv2.RejectUnknownMembers(true))
