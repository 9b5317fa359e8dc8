// Package names checks that names consist of permitted letters. A regular expression with a long repeat would do the
// same, but would take a millisecond to compile at each start of a program.
package names

import "strings"

// The characters of most names.
const (
	Lower  = "abcdefghijklmnopqrstuvwxyz"
	Upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	Digits = "0123456789"
	Alnum  = Lower + Upper + Digits
)

// Made reports whether a name has between least and most bytes, all of which are among the given ASCII letters.
func Made(name string, least, most int, letters string) bool {
	return least <= len(name) && len(name) <= most && strings.Trim(name, letters) == ""
}

// Bucket reports whether a name may be the name of a bucket or container of any cloud.
func Bucket(name string) bool {
	const between = "._-"
	return Made(name, 3, 222, Lower+Digits+between) && strings.Trim(name, between) == name
}
