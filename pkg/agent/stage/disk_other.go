//go:build !unix

package stage

// roomFor finds out while writing.
func roomFor([]wanted) error { return nil }
