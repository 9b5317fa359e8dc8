package traces

import (
	"reflect"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tradewind-broker/tradewind/events"
)

// about is what an event is of, as far as its payload says so.
type about struct {
	job           string
	task, attempt int // attempt 0 is none
	attributes    []attribute.KeyValue
}

// said are the fields of payloads that tell what an event is about, by their names in JSON.
var said = []string{
	"job", "task", "attempt", "cluster", "queue", "cloud", "region", "kind", "reason", "outcome", "plan",
}

// subject reads a payload. Not all have all fields, so they are found by name.
func subject(data events.Data) (a about) {
	v := reflect.Indirect(reflect.ValueOf(data))
	if v.Kind() != reflect.Struct {
		return a
	}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if !slices.Contains(said, name) {
			continue
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			if name == "job" {
				a.job = f.String()
			}
			if f.Len() > 0 {
				a.attributes = append(a.attributes, attribute.String("tradewind."+name, f.String()))
			}
		case reflect.Int:
			switch name {
			case "task":
				a.task = int(f.Int())
			case "attempt":
				a.attempt = int(f.Int())
			}
			a.attributes = append(a.attributes, attribute.Int64("tradewind."+name, f.Int()))
		default: // no field that says what an event is about
		}
	}
	return a
}
