//go:build !unix

package onmachine

import "os"

// watchSize does nothing: this platform does not report changes of the terminal's size.
func watchSize(chan<- os.Signal) {}
