package accel

import "slices"

// Names lists the canonical names in order, without TPUs, whose slices are many.
func Names() []string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.name
	}
	slices.Sort(names)
	return names
}
