package command

import "fmt"

// Exit codes. Shells expect ExitInterrupted of a program stopped from the keyboard.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitBadInput    = 2
	ExitInfeasible  = 3
	ExitInterrupted = 130
)

// Failure is an error with its exit code and a hint.
type Failure struct {
	Code int
	Text string // empty: everything has been printed already
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

// BadInput returns a failure caused by wrong input.
func BadInput(hint, format string, args ...any) error {
	return &Failure{Code: ExitBadInput, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Failed returns a failure of the work itself.
func Failed(hint, format string, args ...any) error {
	return &Failure{Code: ExitFailed, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Silent returns a failure whose exit code explains output that was already printed.
func Silent(code int) error { return &Failure{Code: code} }

// Because returns a failure with its cause.
func Because(cause error, code int, hint, format string, args ...any) error {
	return &Failure{Code: code, Text: fmt.Sprintf(format, args...), Hint: hint, Err: cause}
}
