package recordcache

import "reflect"

// sizeOf is what a value takes in memory, in bytes, with all it refers to. That is a tree, as whatever was read from
// JSON is. Of strings and lists that share their memory each is counted.
func sizeOf(value any) int {
	v := reflect.ValueOf(value)
	return int(v.Type().Size()) + beyond(v)
}

// beyond is what a value refers to, in bytes.
func beyond(v reflect.Value) (sum int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return int(v.Elem().Type().Size()) + beyond(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			sum = v.Cap() * int(v.Type().Elem().Size())
		}
		for i := 0; i < v.Len() && refers(v.Type().Elem()); i++ {
			sum += beyond(v.Index(i))
		}
	case reflect.Map:
		each := int(v.Type().Key().Size() + v.Type().Elem().Size())
		for entry := v.MapRange(); entry.Next(); {
			sum += each + beyond(entry.Key()) + beyond(entry.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			sum += beyond(v.Field(i))
		}
	}
	return sum
}

// refers is false for types of plain numbers, of which there may be long lists.
func refers(t reflect.Type) bool { return t.Kind() > reflect.Complex128 }
