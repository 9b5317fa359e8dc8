package recordcache

import (
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Older simulates a broker of an older version. It does not know a third of the members of records, and rewrites
// every record that is committed.
type Older struct {
	// Forgets makes it drop the members that it does not know. This is a bug that invariants should detect.
	Forgets bool
}

// Between makes every record pass through a broker of an older version before it is stored.
func (d *Decoded) Between(o *Older) { d.older = o }

// rewrite returns a record as the older version writes it after a read.
func (o *Older) rewrite(t reflect.Type, body jsontext.Value) (jsontext.Value, error) {
	read, err := o.read(t, body)
	if err != nil || o.Forgets {
		return read, err
	}
	return carrier{olderFields}.carry(t, body, read)
}

// read returns the members of a record that the older version knows.
func (o *Older) read(t reflect.Type, body jsontext.Value) (jsontext.Value, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case isLeaf(t):
		return body, nil
	case body.Kind() == '{' && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map):
		members, err := membersOf(body)
		if err != nil {
			return nil, err
		}
		c, kept := carrier{olderFields}, members[:0]
		for _, m := range members {
			f, ok := c.known(t, m.name)
			if !ok {
				continue
			}
			if m.value, err = o.read(f, m.value); err != nil {
				return nil, err
			}
			kept = append(kept, m)
		}
		return objectOf(kept)
	case body.Kind() == '[' && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		var elements []jsontext.Value
		if err := jsonv2.Unmarshal(body, &elements); err != nil {
			return nil, err
		}
		for i := range elements {
			var err error
			if elements[i], err = o.read(t.Elem(), elements[i]); err != nil {
				return nil, err
			}
		}
		return jsonv2.Marshal(elements)
	}
	return body, nil
}

// olderKnown are the results of olderFields by type.
var olderKnown sync.Map

// olderFields is fieldsOf of the older version. It knows the members that identify elements of lists.
func olderFields(t reflect.Type) map[string]reflect.Type {
	if known, ok := olderKnown.Load(t); ok {
		return known.(map[string]reflect.Type) //nolint:forcetypeassert // nothing else is stored
	}
	fields := maps.Clone(fieldsOf(t))
	maps.DeleteFunc(fields, func(name string, _ reflect.Type) bool {
		h := fnv.New32a()
		_, _ = h.Write([]byte(t.String() + "." + strings.ToLower(name)))
		return h.Sum32()%3 == 0 && !slices.Contains(identities, name)
	})
	olderKnown.Store(t, fields)
	return fields
}
