package table

import (
	"slices"
	"strconv"
)

// TypeString is a machine type with the accelerators attached to it.
func TypeString(instanceType, accelerator string, count float64) string {
	return instanceType + "+" + accelerator + ":" + strconv.FormatFloat(count, 'f', -1, 64)
}

// reservedNames are the words for markets and managed services in an offer's ID.
var reservedNames = []string{"spot", "on-demand", "emr", "dataproc"}

// ValidName says whether s can be a part of an offer's ID.
func ValidName(s string) bool {
	if s == "" || len(s) > MaxNameLen {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return !slices.Contains(reservedNames, s)
}

// ValidAccelerator says whether s can be attached to a machine type in an ID, or
// is empty.
func ValidAccelerator(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '/' || c == ':' || c == '+' {
			return false
		}
	}
	return len(s) <= MaxNameLen
}
