package recordcache

import "reflect"

// sizeOf returns the size of a value in memory, in bytes, with all data to which it refers. The value must be a tree,
// like all values decoded from JSON. Shared strings and lists are counted each time.
func sizeOf(value any) int {
	v := reflect.ValueOf(value)
	return int(v.Type().Size()) + referencedSize(v)
}

// referencedSize returns the size of the data that a value refers to, in bytes.
func referencedSize(v reflect.Value) (sum int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return int(v.Elem().Type().Size()) + referencedSize(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			sum = v.Cap() * int(v.Type().Elem().Size())
		}
		for i := 0; i < v.Len() && refers(v.Type().Elem()); i++ {
			sum += referencedSize(v.Index(i))
		}
	case reflect.Map:
		each := int(v.Type().Key().Size() + v.Type().Elem().Size())
		for entry := v.MapRange(); entry.Next(); {
			sum += each + referencedSize(entry.Key()) + referencedSize(entry.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			sum += referencedSize(v.Field(i))
		}
	}
	return sum
}

// refers reports whether values of a type refer to other data. It is false for numeric types, whose lists may be long
// and need no loop.
func refers(t reflect.Type) bool { return t.Kind() > reflect.Complex128 }
