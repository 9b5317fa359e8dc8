package text

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Lines prints the lines of several texts to one writer, each line after the name of its text.
type Lines struct {
	mu    sync.Mutex
	out   io.Writer
	style Style
	width int
}

// NewLines returns a Lines whose names take width cells.
func NewLines(out io.Writer, style Style, width int) *Lines {
	return &Lines{out: out, style: style, width: width}
}

// maxLine is the maximum length of a line; longer ones are broken.
const maxLine = 64 << 10

// Copy prints a text, line by line, as it arrives. It may be called concurrently.
func (p *Lines) Copy(task string, r io.Reader) error {
	label := p.style.Paint(Active, Pad(Cut(Clean(task), p.width), p.width, false)) + " │ "
	br := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := br.ReadSlice('\n')
		if len(line) > 0 {
			if werr := p.line(label, line); werr != nil {
				return werr
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

func (p *Lines) line(label string, line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := ""
	if line[len(line)-1] != '\n' {
		end = "\n"
	}
	_, err := fmt.Fprintf(p.out, "%s%s%s", label, line, end)
	return err
}
