// Package story is what a user does with a deployment on an emulated account (package account), step by step. It also
// checks who is let in, compares the counted cost with the predicted one, and prints information for debugging when a
// step fails.
package story
