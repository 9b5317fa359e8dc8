package book

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	json "github.com/go-json-experiment/json/v1"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// decodedBytes bounds the records that are kept decoded, which take about three times what they take as JSON.
const decodedBytes = 12 << 20

// Decoded keeps records as they were last decoded. Most are read again and again before they change, and to copy one
// costs a small part of what it costs to decode it. A record is the same as long as its bytes are: its version says
// less, as those begin anew where a record is removed and made again.
type Decoded struct {
	*recent[store.Key]
	read   bool     // keeps nothing but what was decoded
	owners sync.Map // of func(reflect.Value), by type
	taken  sync.Map // as well, for values that were never stored: see asStored
}

// NewDecoded makes a cache for several brokers of one process, such as a simulator's, which have one store. It keeps
// what one of them has decoded, and nothing as one of them wrote it: what the others read has been through JSON, as it
// has where each is a process of its own.
func NewDecoded() *Decoded {
	return &Decoded{recent: newRecent[store.Key](decodedBytes), read: true}
}

// decodedRecord is a record as JSON and as a *T, neither of which anybody changes.
type decodedRecord struct {
	body  []byte
	value any
	own   func(reflect.Value) // makes a copy of *value own all it refers to
}

// Decode reads a record. What it returns is the caller's own.
func Decode[T any](k *Decoded, key store.Key, body []byte) (value T, err error) {
	if kept, own := keptAs[T](k, key, body); kept != nil {
		value = *kept
		own(reflect.ValueOf(&value).Elem())
		return value, nil
	}
	if err := Unmarshal(body, &value); err != nil {
		return value, fmt.Errorf("broker: record %s: %w", key, err)
	}
	if own := ownerOf(&k.owners, reflect.TypeFor[T](), nil); own != nil {
		kept := value
		own(reflect.ValueOf(&kept).Elem())
		k.Put(key, &decodedRecord{body, &kept, own}, 3*len(body))
	}
	return value, nil
}

// Shared reads a record of which what it returns is shared: it must not be changed.
func Shared[T any](k *Decoded, key store.Key, body []byte) (*T, error) {
	if kept, _ := keptAs[T](k, key, body); kept != nil {
		return kept, nil
	}
	value, err := Decode[T](k, key, body)
	return &value, err
}

// Blob reads what lies in the store under a key, and never changes, nor does anybody change what was read of it. Where
// brokers share what they decode, it is read once for all of them.
func Blob[T any](k *Decoded, key store.Key, body []byte, read func(*T) error) (*T, error) {
	if kept, _ := keptAs[T](k, key, body); kept != nil {
		return kept, nil
	}
	value := new(T)
	if err := read(value); err != nil {
		return nil, err
	}
	if k.read {
		k.Put(key, &decodedRecord{body: body, value: value}, sizeOf(value))
	}
	return value, nil
}

// keptAs returns what is kept of a record, and what makes a copy of it own all it refers to; nil where nothing is.
func keptAs[T any](k *Decoded, key store.Key, body []byte) (*T, func(reflect.Value)) {
	d, ok := k.Get(key).(*decodedRecord)
	if !ok || !bytes.Equal(d.body, body) {
		return nil, nil
	}
	kept, _ := d.value.(*T)
	return kept, d.own
}

// Unmarshal reads what is stored as encoding/json does, but in one pass: what is no JSON is found out on the way, and a
// value that could not be read may be filled in part.
func Unmarshal(body []byte, value any) error { return jsonv2.Unmarshal(body, value, onePass) }

var onePass = jsonv2.JoinOptions(json.DefaultOptionsV1(), json.ReportErrorsWithLegacySemantics(false))

// wrote keeps a record as it was encoded, of which the value stays the caller's.
func (d *Decoded) wrote(key store.Key, body []byte, value any) {
	if d.read {
		return
	}
	v := reflect.ValueOf(value)
	own := ownerOf(&d.taken, v.Type(), asStored)
	if own == nil {
		return
	}
	kept := reflect.New(v.Type())
	kept.Elem().Set(v)
	own(kept.Elem())
	d.Put(key, &decodedRecord{body, kept.Interface(), ownerOf(&d.owners, v.Type(), nil)}, 3*len(body))
}

// asStored makes a time what is read of it: without the reading of the monotonic clock, which stands still while a
// laptop or a function sleeps.
func asStored(v reflect.Value) {
	if t, ok := v.Addr().Interface().(*time.Time); ok {
		*t = t.Round(0)
	}
}

// ownerOf returns what makes a copied value of a type own all it refers to, and does something to its times; nil for a
// type of which that is not known.
func ownerOf(known *sync.Map, t reflect.Type, times func(reflect.Value)) func(reflect.Value) {
	if own, ok := known.Load(t); ok {
		return own.(func(reflect.Value)) //nolint:forcetypeassert // nothing else is stored
	}
	own, found := owner(t, times)
	switch {
	case !found:
		own = nil
	case own == nil:
		own = func(reflect.Value) {}
	}
	known.Store(t, own)
	return own
}

// owner is nil for types whose values refer to nothing that could be changed.
func owner(t reflect.Type, times func(reflect.Value)) (own func(reflect.Value), known bool) {
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[time.Time]():
		return times, true
	case t == reflect.TypeFor[apitypes.Amounts](): // nobody changes one
		return nil, true
	case kind <= reflect.Float64 || kind == reflect.String:
		return nil, true
	case kind == reflect.Struct:
		return ownerOfStruct(t, times)
	case kind == reflect.Slice:
		each, known := owner(t.Elem(), times)
		return func(v reflect.Value) {
			if v.IsNil() {
				return
			}
			fresh := reflect.MakeSlice(t, v.Len(), v.Len())
			reflect.Copy(fresh, v)
			for i := 0; each != nil && i < fresh.Len(); i++ {
				each(fresh.Index(i))
			}
			v.Set(fresh)
		}, known
	case kind == reflect.Map:
		each, known := owner(t.Elem(), times)
		return func(v reflect.Value) {
			if v.IsNil() {
				return
			}
			fresh := reflect.MakeMapWithSize(t, v.Len())
			name, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			for entry := v.MapRange(); entry.Next(); {
				name.SetIterKey(entry)
				value.SetIterValue(entry)
				fresh.SetMapIndex(name, value)
			}
			v.Set(fresh)
		}, known && each == nil
	}
	return nil, false
}

func ownerOfStruct(t reflect.Type, times func(reflect.Value)) (own func(reflect.Value), known bool) {
	type part struct {
		field int
		own   func(reflect.Value)
	}
	var parts []part
	for i := range t.NumField() {
		own, known := owner(t.Field(i).Type, times)
		if !known || own != nil && !t.Field(i).IsExported() {
			return nil, false
		}
		if own != nil {
			parts = append(parts, part{i, own})
		}
	}
	if parts == nil {
		return nil, true
	}
	return func(v reflect.Value) {
		for _, p := range parts {
			p.own(v.Field(p.field))
		}
	}, true
}
