package events

import (
	"reflect"
	"strings"
	"sync"
)

// kind describes an event type.
type kind struct {
	zero   Data
	fields map[string]struct{} // JSON names
}

// registry maps each CloudEvents type to its kind. It is derived from All once and never changes.
var registry = sync.OnceValue(func() map[string]kind {
	all := All()
	byType := make(map[string]kind, len(all))
	for _, d := range all {
		byType[d.Type()] = kind{zero: d, fields: fieldNames(reflect.TypeOf(d))}
	}
	return byType
})

func fieldNames(t reflect.Type) map[string]struct{} {
	names := make(map[string]struct{}, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names[name] = struct{}{}
	}
	return names
}
