package recordcache

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Brokers of two versions may share a store: while a deployment is updated, or after it was rolled back. The older
// version does not know all members of the records that the newer one writes, and must keep them. Decode notes which
// records have unknown members, and Encode copies these from the record that it replaces. A record without the member
// "format" has format 1. A change that an older version would misread, and not only ignore, needs a higher format.
// Older versions refuse to read it.

// Format is the highest format of records that this version reads.
const Format = 3

// ErrNewerFormat means that a record was written by a version whose format this one cannot read.
var ErrNewerFormat = errors.New("a newer version wrote it in a format that this one cannot read: upgrade the broker")

var strictOnePass = jsonv2.JoinOptions(onePass, jsonv2.RejectUnknownMembers(true))

// decode decodes a record into value, a *T. It notes if the record has members that T does not have.
func (d *Decoded) decode(key store.Key, body []byte, value any) error {
	err := jsonv2.Unmarshal(body, value, strictOnePass)
	if !errors.Is(err, jsonv2.ErrUnknownName) {
		return err
	}
	reflect.ValueOf(value).Elem().SetZero()
	var head struct {
		Format int `json:"format"`
	}
	if err := Unmarshal(body, &head); err == nil && head.Format > Format {
		return fmt.Errorf("%w (format %d, not above %d)", ErrNewerFormat, head.Format, Format)
	}
	d.foreign.Store(key, true)
	return Unmarshal(body, value)
}

// carrier copies members that a version does not know from the replaced record.
type carrier struct {
	// fields returns the members of a struct that the version knows: their types, by name in lower case.
	fields func(reflect.Type) map[string]reflect.Type
}

var own = carrier{fieldsOf}

// carry returns the JSON of a record's new value, with the members of its old JSON that a type does not have, at
// every level. Elements of lists match if they have the same identity, or else the same position in lists of equal
// length.
func (c carrier) carry(t reflect.Type, old, body jsontext.Value) (jsontext.Value, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case old.Kind() != body.Kind() || isLeaf(t):
		return body, nil
	case body.Kind() == '{' && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map):
		return c.carryObject(t, old, body)
	case body.Kind() == '[' && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		return c.carryList(t.Elem(), old, body)
	}
	return body, nil
}

// known returns the type of a member of a struct or map, or false if the version does not know it.
func (c carrier) known(t reflect.Type, name string) (reflect.Type, bool) {
	if t.Kind() == reflect.Map {
		return t.Elem(), true
	}
	f, ok := c.fields(t)[strings.ToLower(name)]
	return f, ok
}

func (c carrier) carryObject(t reflect.Type, old, body jsontext.Value) (jsontext.Value, error) {
	before, err := membersOf(old)
	if err != nil {
		return nil, err
	}
	after, err := membersOf(body)
	if err != nil {
		return nil, err
	}
	for i := range after {
		was := slices.IndexFunc(before, func(m member) bool { return m.name == after[i].name })
		if f, ok := c.known(t, after[i].name); ok && was >= 0 {
			if after[i].value, err = c.carry(f, before[was].value, after[i].value); err != nil {
				return nil, err
			}
		}
	}
	for _, m := range before {
		if _, ok := c.known(t, m.name); !ok {
			after = append(after, m)
		}
	}
	return objectOf(after)
}

func (c carrier) carryList(t reflect.Type, old, body jsontext.Value) (jsontext.Value, error) {
	var before, after []jsontext.Value
	if err := errors.Join(jsonv2.Unmarshal(old, &before), jsonv2.Unmarshal(body, &after)); err != nil {
		return nil, err
	}
	ids := make([]string, len(before)) // of the elements that are not matched yet
	for i := range before {
		ids[i] = identity(before[i])
	}
	for i := range after {
		was := -1
		if id := identity(after[i]); id != "" {
			// If several elements have this identity, they match in order.
			was = slices.IndexFunc(ids, func(other string) bool { return other == id })
		} else if len(before) == len(after) {
			was = i
		}
		if was < 0 {
			continue
		}
		ids[was] = ""
		var err error
		if after[i], err = c.carry(t, before[was], after[i]); err != nil {
			return nil, err
		}
	}
	return jsonv2.Marshal(after)
}

// identities are the members that identify elements of lists in records, the best first.
var identities = []string{"id", "cluster", "name", "machine", "task", "offer", "rank", "job", "key", "month"}

// identity returns the identifying member of an element of a list with its value, or "".
func identity(v jsontext.Value) string {
	if v.Kind() != '{' {
		return ""
	}
	members, err := membersOf(v)
	if err != nil {
		return ""
	}
	for _, name := range identities {
		for _, m := range members {
			if m.name == name {
				return name + "=" + string(m.value)
			}
		}
	}
	return ""
}

// member is a member of a JSON object.
type member struct {
	name  string
	value jsontext.Value
}

// membersOf returns the members of an object in their order.
func membersOf(v jsontext.Value) (members []member, err error) {
	dec := jsontext.NewDecoder(strings.NewReader(string(v)))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = value.Clone()
		members = append(members, m)
	}
	_, err = dec.ReadToken()
	return members, err
}

// objectOf returns an object with the members in their order.
func objectOf(members []member) (jsontext.Value, error) {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := jsontext.AppendQuote(out, m.name)
		if err != nil {
			return nil, err
		}
		out = append(append(name, ':'), m.value...)
	}
	return append(out, '}'), nil
}

// knownFields are the results of fieldsOf by type.
var knownFields sync.Map

// fieldsOf returns the types of a struct's JSON members by name in lower case, since names are matched in any case.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := knownFields.Load(t); ok {
		return known.(map[string]reflect.Type) //nolint:forcetypeassert // nothing else is stored
	}
	fields := map[string]reflect.Type{}
	for f := range fieldsIn(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch name {
		case "-":
		case "":
			fields[strings.ToLower(f.Name)] = f.Type
		default:
			fields[strings.ToLower(name)] = f.Type
		}
	}
	knownFields.Store(t, fields)
	return fields
}

// fieldsIn yields the exported fields of a struct and of the structs that it embeds without a name in JSON.
func fieldsIn(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			inner := f.Type
			for inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
				for g := range fieldsIn(inner) {
					if !yield(g) {
						return
					}
				}
				continue
			}
			if f.IsExported() && !yield(f) {
				return
			}
		}
	}
}

// isLeaf reports whether the values of a type have their own form in JSON.
func isLeaf(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, own := range []reflect.Type{
		reflect.TypeFor[jsonv2.Marshaler](), reflect.TypeFor[jsonv2.MarshalerTo](),
		reflect.TypeFor[encoding.TextMarshaler](),
	} {
		if p.Implements(own) {
			return true
		}
	}
	return false
}
