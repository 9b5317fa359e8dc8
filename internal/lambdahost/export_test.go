package lambdahost

import (
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Final is final, for the tests.
func Final(err error) bool { return final(err) }

// NewForTest makes a host that calls nobody.
func NewForTest(fn string, env Env, out io.Writer, now func() time.Time, parts ...Part) (*Host, error) {
	first := func(h *Host) error {
		h.now, h.Ports.Now = now, now
		return nil
	}
	return New(fn, env, aws.Config{}, out, append([]Part{first}, parts...)...)
}
