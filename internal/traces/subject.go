package traces

import (
	"reflect"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tradewind-broker/tradewind/events"
)

// about has the job, task and attempt that an event concerns, as far as its payload names them.
type about struct {
	job           string
	task, attempt int // attempt 0: the payload names none
	attributes    []attribute.KeyValue
}

// subjectFields are the JSON names of the payload fields that identify the subject of an event.
var subjectFields = []string{
	"job", "task", "attempt", "cluster", "queue", "cloud", "region", "kind", "reason", "outcome", "plan",
}

// subjectOf reads a payload. Payload types have different fields, so it looks them up by their JSON name.
func subjectOf(data events.Data) (a about) {
	v := reflect.Indirect(reflect.ValueOf(data))
	if v.Kind() != reflect.Struct {
		return a
	}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if !slices.Contains(subjectFields, name) {
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
		default: // not a field that identifies the subject
		}
	}
	return a
}
