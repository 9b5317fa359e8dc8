// Package story is the actions of a user with a deployment on an emulated account (package account), step by step. It
// also checks authorisation, compares the counted cost with the predicted one, and prints information for debugging
// when a step fails.
package story
