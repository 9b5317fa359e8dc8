package lab_test

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/lab"
)

// result is the outcome of a command.
type result struct {
	code     int
	out, err string
}

// run runs a command of the program with its arguments.
func run(args ...string) result {
	var out, errs bytes.Buffer
	code := lab.Run(context.Background(), &command.Env{
		In: strings.NewReader(""), Out: &out, Err: &errs, Now: func() time.Time { return time.Time{} },
	}, args)
	return result{code: code, out: out.String(), err: errs.String()}
}
