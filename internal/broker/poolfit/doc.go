// Package poolfit lays tasks and machines of pools out as problems of pkg/placement, whose vectors it makes, and finds
// which of what runs is to go from where it is so that something has room that has none.
//
// It works on records alone: no store, no clock.
package poolfit
