// Package names checks names by the letters that they may be made of. A regular expression with a long repeat says the
// same, and takes a millisecond of each start of a program to compile.
package names

import "strings"

// The characters of most names.
const (
	Lower  = "abcdefghijklmnopqrstuvwxyz"
	Upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	Digits = "0123456789"
	Alnum  = Lower + Upper + Digits
)

// Made says whether a name has between least and most bytes, all of them among some letters, which are ASCII.
func Made(name string, least, most int, letters string) bool {
	return least <= len(name) && len(name) <= most && strings.Trim(name, letters) == ""
}

// Bucket says whether a name may be one of a bucket or container of any cloud.
func Bucket(name string) bool {
	const between = "._-"
	return Made(name, 3, 222, Lower+Digits+between) && strings.Trim(name, between) == name
}
