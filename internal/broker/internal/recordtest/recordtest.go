// Package recordtest prints the changes that a decision makes to records, for tests written as stories.
package recordtest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Changed returns the changed fields of a record as FIELD=VALUE, and the removed fields.
func Changed(before, after map[string]any) string {
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if !reflect.DeepEqual(before[name], after[name]) {
			text, _ := json.Marshal(after[name]) // it was read as JSON
			changed = append(changed, name+"="+string(text))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, there := after[name]; !there {
			changed = append(changed, "no "+name)
		}
	}
	return strings.Join(changed, " ")
}
