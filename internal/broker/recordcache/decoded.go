package recordcache

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

// decodedBytes is the maximum size of all decoded records. A decoded record takes about three times its size as JSON.
const decodedBytes = 12 << 20

// Decoded caches records in decoded form. Most records are read many times before they change, and a copy costs a
// small part of decoding. A cached record is valid if its bytes are the same. Comparing its version would not be
// enough, because versions start again when a record is removed and created again.
type Decoded struct {
	*recent[store.Key]
	read          bool     // only values decoded from JSON, not those that were written
	owners        sync.Map // of func(reflect.Value), by type
	writtenOwners sync.Map // the same for values that were not read from the store: see asStored
	foreign       sync.Map // keys of records with members that their types do not have
	older         *Older   // rewrites every record; nil outside of simulations
}

// NewDecoded returns a cache for several brokers of one process with one store, for example in a simulation. It
// caches only values that were decoded from JSON. So each broker reads values that have been through JSON, as if it
// were a separate process.
func NewDecoded() *Decoded {
	return &Decoded{recent: newRecent[store.Key](decodedBytes), read: true}
}

// decodedRecord is a record as JSON and as a *T. Both are immutable.
type decodedRecord struct {
	body  []byte
	value any
	own   func(reflect.Value) // makes a shallow copy of *value a deep copy
}

// Decode reads a record. The caller owns the result.
func Decode[T any](k *Decoded, key store.Key, body []byte) (value T, err error) {
	if kept, own := cachedAs[T](k, key, body); kept != nil {
		value = *kept
		own(reflect.ValueOf(&value).Elem())
		return value, nil
	}
	if err := k.decode(key, body, &value); err != nil {
		return value, fmt.Errorf("broker: record %s: %w", key, err)
	}
	if own := ownerOf(&k.owners, reflect.TypeFor[T](), nil); own != nil {
		kept := value
		own(reflect.ValueOf(&kept).Elem())
		k.Put(key, &decodedRecord{body, &kept, own}, 3*len(body))
	}
	return value, nil
}

// Shared reads a record. The result is shared and must not be changed.
func Shared[T any](k *Decoded, key store.Key, body []byte) (*T, error) {
	if kept, _ := cachedAs[T](k, key, body); kept != nil {
		return kept, nil
	}
	value, err := Decode[T](k, key, body)
	return &value, err
}

// Blob reads an immutable blob of the store with the function read. The result must not be changed. If brokers share
// the cache, the blob is read once for all of them.
func Blob[T any](k *Decoded, key store.Key, body []byte, read func(*T) error) (*T, error) {
	if kept, _ := cachedAs[T](k, key, body); kept != nil {
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

// cachedAs returns the cached value of a record and its own function, or nil.
func cachedAs[T any](k *Decoded, key store.Key, body []byte) (*T, func(reflect.Value)) {
	d, ok := k.Get(key).(*decodedRecord)
	if !ok || !bytes.Equal(d.body, body) {
		return nil, nil
	}
	kept, _ := d.value.(*T)
	return kept, d.own
}

// Unmarshal decodes like encoding/json, but in one pass. If the JSON is invalid, the value may be partly filled.
func Unmarshal(body []byte, value any) error { return jsonv2.Unmarshal(body, value, onePass) }

var onePass = jsonv2.JoinOptions(json.DefaultOptionsV1(), json.ReportErrorsWithLegacySemantics(false))

// putWritten caches a record as it was encoded. The caller keeps value, so the cache makes a copy.
func (d *Decoded) putWritten(key store.Key, body []byte, value any) {
	if d.read {
		return
	}
	v := reflect.ValueOf(value)
	own := ownerOf(&d.writtenOwners, v.Type(), asStored)
	if own == nil {
		return
	}
	kept := reflect.New(v.Type())
	kept.Elem().Set(v)
	own(kept.Elem())
	d.Put(key, &decodedRecord{body, kept.Interface(), ownerOf(&d.owners, v.Type(), nil)}, 3*len(body))
}

// asStored changes a time to the one that would be read from its JSON: without the monotonic clock reading, which
// stops while a laptop or a function sleeps.
func asStored(v reflect.Value) {
	if t, ok := v.Addr().Interface().(*time.Time); ok {
		*t = t.Round(0)
	}
}

// ownerOf returns a function that makes a shallow copy of a type's value a deep copy, and applies times to its times.
// It returns nil for types that cannot be copied this way.
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

// owner returns nil for types whose values refer to nothing mutable.
func owner(t reflect.Type, times func(reflect.Value)) (own func(reflect.Value), known bool) {
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[time.Time]():
		return times, true
	case t == reflect.TypeFor[apitypes.Amounts](): // treated as immutable everywhere
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
