package native

// Fields returns the names of the fields that the reader accepts in a part of a file.
func Fields(part string) []string {
	r := &reader{}
	return map[string][]string{
		"job": r.forJob().Names(), "task": r.forTask().Names(), "defaults": r.forDefaults().Names(),
		"resources": append(r.forResources().Names(), anyOfField, orderedField, executorsField),
	}[part]
}
