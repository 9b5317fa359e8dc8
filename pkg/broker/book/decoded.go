package book

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// decodedBytes bounds the records that are kept decoded, which take about three times what they take as JSON.
const decodedBytes = 12 << 20

// decodedRecords keeps records as they were last decoded. Most are read again and again before they change, and to copy
// one costs a small part of what it costs to decode it. A record is the same as long as its bytes are: its version says
// less, as those begin anew where a record is removed and made again.
type decodedRecords struct {
	*recent[store.Key]
	owners sync.Map // of func(reflect.Value), by type
}

// decodedRecord is a record as JSON and as a *T, neither of which anybody changes.
type decodedRecord struct {
	body  []byte
	value any
}

// decode reads the record of a slot. What it returns is the caller's own.
func decode[T any](k *decodedRecords, s *Slot) (value T, err error) {
	own := k.owner(reflect.TypeFor[T]())
	if d, ok := k.Get(s.Key).(*decodedRecord); ok && own != nil && bytes.Equal(d.body, s.Body) {
		if kept, ok := d.value.(*T); ok {
			value = *kept
			own(reflect.ValueOf(&value).Elem())
			return value, nil
		}
	}
	if err := json.Unmarshal(s.Body, &value); err != nil {
		return value, fmt.Errorf("broker: record %s: %w", s.Key, err)
	}
	if own != nil {
		kept := value
		own(reflect.ValueOf(&kept).Elem())
		k.Put(s.Key, &decodedRecord{s.Body, &kept}, 3*len(s.Body))
	}
	return value, nil
}

// owner returns what makes a copied value of a type own all it refers to; nil for a type of which that is not known.
func (d *decodedRecords) owner(t reflect.Type) func(reflect.Value) {
	if own, ok := d.owners.Load(t); ok {
		return own.(func(reflect.Value)) //nolint:forcetypeassert // nothing else is stored
	}
	own, known := owner(t)
	switch {
	case !known:
		own = nil
	case own == nil:
		own = func(reflect.Value) {}
	}
	d.owners.Store(t, own)
	return own
}

// owner is nil for types whose values refer to nothing that could be changed.
func owner(t reflect.Type) (own func(reflect.Value), known bool) {
	switch kind := t.Kind(); {
	case kind <= reflect.Float64 || kind == reflect.String || t == reflect.TypeFor[time.Time]():
		return nil, true
	case kind == reflect.Struct:
		return ownerOfStruct(t)
	case kind == reflect.Slice:
		each, known := owner(t.Elem())
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
		each, known := owner(t.Elem())
		return func(v reflect.Value) {
			if v.IsNil() {
				return
			}
			fresh := reflect.MakeMapWithSize(t, v.Len())
			for entry := v.MapRange(); entry.Next(); {
				fresh.SetMapIndex(entry.Key(), entry.Value())
			}
			v.Set(fresh)
		}, known && each == nil
	}
	return nil, false
}

func ownerOfStruct(t reflect.Type) (own func(reflect.Value), known bool) {
	type part struct {
		field int
		own   func(reflect.Value)
	}
	var parts []part
	for i := range t.NumField() {
		own, known := owner(t.Field(i).Type)
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
