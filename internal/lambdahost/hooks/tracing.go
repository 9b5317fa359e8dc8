package hooks

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/traces"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// tracing sends finished jobs to a collector. It connects at the first one, so as not to slow down the start.
type tracing struct {
	jobs      Jobs
	ssm       *ssm.Client
	parameter string // with the collector's headers; "" is none
	log       *slog.Logger

	mu   sync.Mutex
	open *traces.Traces
}

// Jobs loads a job: view.Views.JobDetail.
type Jobs func(ctx context.Context, id string) (*apitypes.JobDetail, error)

// tracedWithin limits how long a slow collector may delay the notification of users.
const tracedWithin = 20 * time.Second

func (t *tracing) finished(ctx context.Context, job string) {
	ctx, cancel := context.WithTimeout(ctx, tracedWithin)
	defer cancel()
	to, err := t.collector(ctx)
	if err != nil {
		t.log.Warn("opentelemetry", "job", job, "err", err)
		return
	}
	to.Export(ctx, job)
}

func (t *tracing) collector(ctx context.Context) (*traces.Traces, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open != nil {
		return t.open, nil
	}
	headers, err := t.headers(ctx)
	if err != nil {
		return nil, err
	}
	t.open, err = traces.Open(context.WithoutCancel(ctx), traces.Config{
		Headers: headers, Now: time.Now, Log: t.log,
		Jobs: t.jobs,
	})
	return t.open, err
}

// headers reads the headers from the parameter in the environment, as comma-separated NAME=VALUE (OpenTelemetry's
// format): a collector's key must not be in a template.
func (t *tracing) headers(ctx context.Context) (map[string]string, error) {
	name := t.parameter
	if name == "" {
		return nil, nil
	}
	out, err := t.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
	if err != nil {
		return nil, fmt.Errorf("parameter %s: %w", name, err)
	}
	headers := map[string]string{}
	for part := range strings.SplitSeq(aws.ToString(out.Parameter.Value), ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("parameter %s: not comma-separated NAME=VALUE", name) // without the secret value
		}
		headers[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return headers, nil
}
