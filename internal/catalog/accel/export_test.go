package accel

import "slices"

// Names returns the canonical names, sorted, without TPUs, which have many slices.
func Names() []string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.name
	}
	slices.Sort(names)
	return names
}
