package progress

import (
	"os"

	"golang.org/x/term"
)

// tty is the terminal of a file.
type tty struct{ file *os.File }

func (t tty) fd() int { return int(t.file.Fd()) } //nolint:gosec // descriptors are small

func (t tty) size() (width, height int) {
	width, height, err := term.GetSize(t.fd())
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}
