//go:build !unix

package onmachine

import "os"

// watchSize has changes of the terminal's size told: here nothing tells them.
func watchSize(chan<- os.Signal) {}
