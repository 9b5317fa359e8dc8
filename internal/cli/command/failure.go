package command

import "fmt"

// Exit codes. Interrupted is what shells expect of a program that was stopped from the keyboard.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitBadInput    = 2
	ExitInfeasible  = 3
	ExitInterrupted = 130
)

// Failure is an error with its exit code and what to do about it.
type Failure struct {
	Code int
	Text string // empty: everything has been said already
	Hint string
	Err  error // cause; may be nil
}

func (f *Failure) Error() string {
	if f.Text == "" && f.Err != nil {
		return f.Err.Error()
	}
	return f.Text
}

func (f *Failure) Unwrap() error { return f.Err }

// BadInput is a failure for which the caller is to blame.
func BadInput(hint, format string, args ...any) error {
	return &Failure{Code: ExitBadInput, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Failed is a failure of the work itself.
func Failed(hint, format string, args ...any) error {
	return &Failure{Code: ExitFailed, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Silent ends with a code of which the output tells already.
func Silent(code int) error { return &Failure{Code: code} }

// Because is a failure with what caused it.
func Because(cause error, code int, hint, format string, args ...any) error {
	return &Failure{Code: code, Text: fmt.Sprintf(format, args...), Hint: hint, Err: cause}
}
