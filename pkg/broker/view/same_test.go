package view

import (
	"reflect"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestSameTaskDetectsEveryChange(t *testing.T) {
	fields := reflect.TypeFor[apitypes.TaskView]()
	for i := range fields.NumField() {
		var task apitypes.TaskView
		switch v := reflect.ValueOf(&task).Elem().Field(i); v.Interface().(type) {
		case string:
			v.SetString("x")
		case int:
			v.SetInt(1)
		case bool:
			v.SetBool(true)
		case float64:
			v.SetFloat(1)
		case time.Time:
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
		case []int: // what it waits for, which never changes
			continue
		default:
			t.Fatalf("%s is of a type that this test does not know", fields.Field(i).Name)
		}
		if SameTask(apitypes.TaskView{}, task) {
			t.Errorf("a change of %s is not seen", fields.Field(i).Name)
		}
	}
}
