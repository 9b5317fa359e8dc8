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
		case []int: // After never changes
			continue
		default:
			t.Fatalf("%s has a type that this test does not support", fields.Field(i).Name)
		}
		if SameTask(apitypes.TaskView{}, task) {
			t.Errorf("a change of %s is not detected", fields.Field(i).Name)
		}
	}
}
