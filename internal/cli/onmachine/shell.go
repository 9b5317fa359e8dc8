package onmachine

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/term"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/tunnel"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Shell opens a terminal on the machine, with a shell or a command, and returns its exit code. It restores the local
// terminal when it returns.
func Shell(ctx context.Context, b Broker, w Target, argv []string, p Process, kind string) (int, error) {
	tty, ok := p.In.(*os.File)
	if !ok || !term.IsTerminal(int(tty.Fd())) {
		return 0, command.BadInput("`tradewind exec` runs a command without a terminal", "a shell needs a terminal")
	}
	g, err := open(ctx, b, w, client.Visiting{Kind: tunnel.Shell, Command: argv}, p)
	if err != nil {
		return 0, err
	}
	was, err := term.MakeRaw(int(tty.Fd()))
	if err != nil {
		return 0, g.closeAfter(fmt.Errorf("the terminal: %w", err))
	}
	defer term.Restore(int(tty.Fd()), was) //nolint:errcheck // restore the old state
	size := func() tunnel.Size {
		cols, rows, err := term.GetSize(int(tty.Fd()))
		if err != nil {
			return tunnel.Size{}
		}
		return tunnel.Size{Rows: uint16(rows), Cols: uint16(cols)} //nolint:gosec // the kernel's values are 16 bits
	}
	notes := make(chan tunnel.Note, 1)
	done := make(chan struct{})
	resized := make(chan os.Signal, 1)
	watchSize(resized)
	defer signal.Stop(resized)
	defer close(done)
	go func() {
		defer close(notes)
		for {
			select {
			case <-resized:
				now := size()
				select {
				case notes <- tunnel.Note{Size: &now}:
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	}()
	p.In = &escaping{from: tty, start: true, leave: func() { _ = g.mux.Close() }}
	code, err := g.run(tunnel.Start{Command: argv, Terminal: true, Size: size(), Term: kind}, p, notes)
	if in, ok := p.In.(*escaping); ok && in.left() {
		_ = g.close()
		return 0, nil
	}
	return code, g.closeAfter(err)
}

// escaping passes input through, except for the escape: a tilde and a dot at the start of a line end the visit, and two
// tildes are sent as one.
type escaping struct {
	from  io.Reader
	start bool // at the start of a line
	tilde bool // the first character of an escape was typed
	leave func()
	gone  bool
}

func (e *escaping) left() bool { return e.gone }

// Read implements io.Reader.
func (e *escaping) Read(p []byte) (int, error) {
	if len(p) < 2 {
		return 0, io.ErrShortBuffer
	}
	for {
		n, err := e.from.Read(p[:len(p)/2])
		out := make([]byte, 0, 2*n)
		for _, c := range p[:n] {
			switch {
			case e.tilde && c == '.':
				e.gone = true
				e.leave()
				return copy(p, out), io.EOF
			case e.tilde && c != '~':
				out = append(out, '~', c)
			case !e.tilde && e.start && c == '~':
				e.tilde = true
				continue
			default:
				out = append(out, c)
			}
			e.tilde, e.start = false, c == '\r' || c == '\n'
		}
		if len(out) > 0 || err != nil {
			return copy(p, out), err
		}
	}
}
