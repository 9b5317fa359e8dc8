package tunnel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/hashicorp/yamux"
)

// Kind is what a visit is for.
type Kind string

// The kinds of visits.
const (
	Exec    Kind = "exec"    // a command
	Shell   Kind = "shell"   // a command on a terminal; without one, the shell
	Forward Kind = "forward" // connections to a port of the machine
)

// Role is what a stream of a visit is for. Its first line, JSON, is a Header that says it.
type Role string

// The roles. Of a command the person opens the first three, in this order, before it starts.
const (
	Control Role = "control" // a Start, then Notes to and fro; the last is the machine's and has the exit
	Main    Role = "main"    // standard input and output, or the terminal's
	Errors  Role = "errors"  // standard error
	Dial    Role = "dial"    // one connection to the port: answered by a Note, then its bytes
)

// Header begins a stream.
type Header struct {
	Role Role `json:"role"`
}

// Size is that of a terminal, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Start is what is to run.
type Start struct {
	Command  []string `json:"command,omitempty"` // empty is a shell
	Terminal bool     `json:"terminal,omitempty"`
	Size     Size     `json:"size,omitzero"`
	Term     string   `json:"term,omitempty"` // the kind of terminal, as TERM names it
}

// Note is a word between the sides.
type Note struct {
	Size   *Size  `json:"size,omitempty"`   // the terminal's is now
	Signal string `json:"signal,omitempty"` // to send to the command: INT, TERM, HUP or QUIT
	Exit   *int   `json:"exit,omitempty"`   // the command has ended, with this code
	Error  string `json:"error,omitempty"`  // or did not start, or there is no connection, for this reason
}

// MaxHead is the most bytes of a line of JSON that begins a stream, or is a Note.
const MaxHead = 256 << 10

// ErrHead says that a stream does not begin as it should.
var ErrHead = errors.New("tunnel: a stream is not what it should be")

// aliveEvery is how often each side asks whether the other is there, and answersIn how long it waits for the answer.
const (
	aliveEvery = 15 * time.Second
	answersIn  = 30 * time.Second
)

func settings() *yamux.Config {
	cfg := yamux.DefaultConfig()
	cfg.KeepAliveInterval, cfg.ConnectionWriteTimeout = aliveEvery, answersIn
	// A side that has said all may listen for as long as the other talks: what is dead is found by asking, not by time.
	cfg.StreamCloseTimeout, cfg.StreamOpenTimeout = 0, 0
	cfg.LogOutput, cfg.Logger = nil, log.New(io.Discard, "", 0)
	return cfg
}

// Person is the side of a visit that opens streams.
func Person(c *Conn) (*yamux.Session, error) { return yamux.Client(c, settings()) }

// Machine is the side that accepts them. It says first that it has come.
func Machine(c *Conn) (*yamux.Session, error) {
	if _, err := io.WriteString(c, arrived); err != nil {
		return nil, err
	}
	return yamux.Server(c, settings())
}

// arrived is what a machine says first: until it does, nobody answers whether they are there.
const arrived = "tradewind visit 1\n"

// Met waits until the machine has come, before the connection is given to Person.
func Met(c *Conn) error {
	word := make([]byte, len(arrived))
	if _, err := io.ReadFull(c, word); err != nil {
		return err
	}
	if string(word) != arrived {
		return fmt.Errorf("%w: the machine's first word is %q", ErrHead, word)
	}
	return nil
}

// Open opens a stream for a role.
func Open(s *yamux.Session, role Role) (*yamux.Stream, error) {
	st, err := s.OpenStream()
	if err != nil {
		return nil, err
	}
	return st, Say(st, Header{Role: role})
}

// Say writes a line.
func Say(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Lines reads lines of JSON, and then what follows them.
type Lines struct{ *bufio.Reader }

// NewLines reads from r.
func NewLines(r io.Reader) Lines { return Lines{bufio.NewReaderSize(r, MaxHead)} }

// Next decodes the next line.
func (l Lines) Next(v any) error {
	line, err := l.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%w: a line is longer than %d bytes", ErrHead, MaxHead)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("%w: %w", ErrHead, err)
	}
	return nil
}
