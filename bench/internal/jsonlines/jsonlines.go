// Package jsonlines runs programs that answer lines of JSON with lines of JSON.
package jsonlines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Process is a running program.
type Process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts a program. Its standard error is this program's.
func Start(ctx context.Context, program string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, program, args...)} //nolint:gosec // a benchmark's own program
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	return p, p.cmd.Start()
}

// Send writes v to the program as one line.
func (p *Process) Send(v any) error { return Write(p.in, v) }

// Receive reads the program's next line into v.
func (p *Process) Receive(v any) error {
	err := Read(p.out, v)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("exited: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Ask sends a question and receives its answer.
func (p *Process) Ask(question, answer any) error {
	if err := p.Send(question); err != nil {
		return err
	}
	return p.Receive(answer)
}

// Wait waits until the program has ended by itself.
func (p *Process) Wait() error { return p.cmd.Wait() }

// Stop closes the program's input, which ends it, and waits for its end.
func (p *Process) Stop() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// Read reads one line into v. It returns io.EOF at the end of the input.
func Read(in *bufio.Reader, v any) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// Write writes v as one line.
func Write(out io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = out.Write(append(body, '\n'))
	return err
}
