package events

import (
	"bytes"
	"reflect"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	json "github.com/go-json-experiment/json/v1"
)

// plain is what an envelope holds that Tradewind itself has written: no extension attributes, and nothing that JSON
// escapes. Such a one is written and read in a small part of the time that it takes for all that a CloudEvent may be.
type plain struct {
	id, source, kind, subject string
	at                        time.Time
	data                      []byte
}

// plainParts are what stands before each of its attributes.
var plainParts = [...]string{
	`{"specversion":"1.0","id":"`, `","source":"`, `","type":"`, `","subject":"`,
	`","datacontenttype":"application/json","time":"`, `","data":`,
}

// valid says whether the general writer and reader would change nothing in it.
func (p *plain) valid() bool {
	for _, s := range []string{p.id, p.subject} {
		if s == "" || strings.TrimSpace(s) != s || !unescaped(s) {
			return false
		}
	}
	return p.source != "" && isPath(p.source) && unescaped(p.kind) && !p.at.IsZero() && len(p.data) > 0 &&
		p.data[0] == '{'
}

// unescaped says whether a text is as it is in JSON.
func unescaped(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// isPath says whether a source is made of what Tradewind's are made of: such a one is a URI reference.
func isPath(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '/' {
			return false
		}
	}
	return true
}

// marshalPlain writes an event that is plain.
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

// parsePlain reads what marshalPlain has written. What is not plain it leaves to parseAny: to keep what is unknown, and
// to say what is wrong.
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

// exact reads the payload of a type to the letter, and in one pass.
var exact = jsonv2.JoinOptions(json.DefaultOptionsV1(), json.ReportErrorsWithLegacySemantics(false),
	jsonv2.MatchCaseInsensitiveNames(false), jsonv2.RejectUnknownMembers(true))
