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

// Kind is the kind of a visit.
type Kind string

// The kinds of visits.
const (
	Exec    Kind = "exec"    // a command
	Shell   Kind = "shell"   // a command on a terminal; if there is none, the shell
	Forward Kind = "forward" // connections to a port of the machine
)

// Role is the role of a stream of a visit. The stream's first line is a Header in JSON that contains it.
type Role string

// The roles. For a command, the user's side opens the first three, in this order, before it starts.
const (
	Control Role = "control" // a Start, then Notes in both directions; the machine's last one contains the exit code
	Main    Role = "main"    // standard input and output, or the terminal's
	Errors  Role = "errors"  // standard error
	Dial    Role = "dial"    // one connection to the port: answered by a Note, then its bytes
)

// Header is the first line of a stream.
type Header struct {
	Role Role `json:"role"`
}

// Size is the size of a terminal, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Start describes the command to run.
type Start struct {
	Command  []string `json:"command,omitempty"` // empty is a shell
	Terminal bool     `json:"terminal,omitempty"`
	Size     Size     `json:"size,omitzero"`
	Term     string   `json:"term,omitempty"` // the type of terminal, as in TERM
}

// Note is a message between the sides.
type Note struct {
	Size   *Size  `json:"size,omitempty"`   // the new size of the terminal
	Signal string `json:"signal,omitempty"` // to send to the command: INT, TERM, HUP or QUIT
	Exit   *int   `json:"exit,omitempty"`   // the command has ended with this exit code
	Error  string `json:"error,omitempty"`  // why the command did not start or the connection failed
}

// MaxLine is the maximum length of a line of JSON (a Header or a Note), in bytes.
const MaxLine = 256 << 10

// ErrInvalidStream means that the beginning of a stream is not valid.
var ErrInvalidStream = errors.New("tunnel: invalid stream")

// aliveEvery is the interval of keep-alive probes from each side, and answersIn the timeout for their answer.
const (
	aliveEvery = 15 * time.Second
	answersIn  = 30 * time.Second
)

func settings() *yamux.Config {
	cfg := yamux.DefaultConfig()
	cfg.KeepAliveInterval, cfg.ConnectionWriteTimeout = aliveEvery, answersIn
	// A side that has closed its direction may listen for as long as the other sends. Dead peers are detected by
	// probes, not by timeouts.
	cfg.StreamCloseTimeout, cfg.StreamOpenTimeout = 0, 0
	cfg.LogOutput, cfg.Logger = nil, log.New(io.Discard, "", 0)
	return cfg
}

// UserSession returns a session for the side of a visit that opens streams.
func UserSession(c *Conn) (*yamux.Session, error) { return yamux.Client(c, settings()) }

// MachineSession returns a session for the side that accepts streams. It first announces itself.
func MachineSession(c *Conn) (*yamux.Session, error) {
	if _, err := io.WriteString(c, arrived); err != nil {
		return nil, err
	}
	return yamux.Server(c, settings())
}

// arrived is the first data that a machine sends. Until then, keep-alive probes would not be answered.
const arrived = "tradewind visit 1\n"

// AwaitMachine waits until the machine has announced itself. Call it before Person.
func AwaitMachine(c *Conn) error {
	word := make([]byte, len(arrived))
	if _, err := io.ReadFull(c, word); err != nil {
		return err
	}
	if string(word) != arrived {
		return fmt.Errorf("%w: the machine announced itself with %q", ErrInvalidStream, word)
	}
	return nil
}

// Open opens a stream for a role.
func Open(s *yamux.Session, role Role) (*yamux.Stream, error) {
	st, err := s.OpenStream()
	if err != nil {
		return nil, err
	}
	return st, WriteLine(st, Header{Role: role})
}

// WriteLine writes v as a line of JSON.
func WriteLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Lines reads lines of JSON, and then the bytes that follow them.
type Lines struct{ *bufio.Reader }

// NewLines returns Lines that read from r.
func NewLines(r io.Reader) Lines { return Lines{bufio.NewReaderSize(r, MaxLine)} }

// Next decodes the next line.
func (l Lines) Next(v any) error {
	line, err := l.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%w: a line is longer than %d bytes", ErrInvalidStream, MaxLine)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidStream, err)
	}
	return nil
}
