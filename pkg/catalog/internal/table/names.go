package table

import (
	"slices"
	"strconv"
)

// TypeString returns a machine type with its attached accelerators: TYPE+ACCELERATOR:COUNT.
func TypeString(instanceType, accelerator string, count float64) string {
	return instanceType + "+" + accelerator + ":" + strconv.FormatFloat(count, 'f', -1, 64)
}

// reservedNames are the names of markets and managed services in an offer's ID.
var reservedNames = []string{"spot", "on-demand", "emr", "dataproc"}

// ValidName reports whether s can be a part of an offer's ID.
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

// ValidAccelerator reports whether s is empty or can be an attached accelerator in an ID.
func ValidAccelerator(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '/' || c == ':' || c == '+' {
			return false
		}
	}
	return len(s) <= MaxNameLen
}
