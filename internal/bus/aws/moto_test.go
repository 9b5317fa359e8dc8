package aws_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/internal/bus/aws/awstest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/bus/bustest"
)

// world is a moto whose clock the tests control, so that no test waits for a time-out of SQS.
type world struct {
	endpoint string
	dir      string
	mu       sync.Mutex
	file     *os.File
	ahead    time.Duration // by which its clock is ahead of the real one
}

var (
	motoOnce    sync.Once
	motoWorld   *world
	errMoto     error
	deployments atomic.Int64 // numbers the deployments on one moto
)

func TestMain(m *testing.M) {
	code := m.Run()
	if motoWorld != nil {
		_ = motoWorld.file.Close()
		_ = os.RemoveAll(motoWorld.dir)
	}
	os.Exit(code)
}

// moto returns the moto of this test binary. If moto is not installed, it skips the test.
func moto(t testing.TB) *world {
	t.Helper()
	motoOnce.Do(func() { motoWorld, errMoto = startMoto() })
	var absent *emulator.NotInstalledError
	switch {
	case errors.As(errMoto, &absent) && os.Getenv(emulator.Required) == "":
		t.Skip(errMoto)
	case errMoto != nil:
		t.Fatal(errMoto)
	}
	return motoWorld
}

func startMoto() (*world, error) {
	dir, err := os.MkdirTemp("", "moto-clock")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir}
	if w.file, err = os.Create(filepath.Join(dir, "clock")); err != nil {
		return nil, err
	}
	if err := w.jump(0); err != nil {
		return nil, err
	}
	script, err := filepath.Abs("testdata/moto_clock.py")
	if err != nil {
		return nil, err
	}
	s := emulator.MotoServer()
	plain := s.Command
	s.Command = func(tools, port string) ([]string, error) {
		arguments, err := plain(tools, port)
		if err != nil {
			return nil, err
		}
		python := filepath.Join(tools, "venv", "bin", "python")
		return append([]string{python, script, w.file.Name()}, arguments[1:]...), nil
	}
	p, err := emulator.Start(s)
	if err != nil {
		return nil, err
	}
	w.endpoint = p.Endpoint
	return w, nil
}

// advance advances the time of moto and of the buses on it.
func (w *world) advance(t testing.TB, d time.Duration) {
	t.Helper()
	if err := w.jump(d); err != nil {
		t.Fatal(err)
	}
}

func (w *world) jump(d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(w.ahead))
	_, err := w.file.WriteAt(b[:], 0)
	return err
}

// Now, After and Wall implement the clock of a bus by moto's clock, which jumps ahead when a bus waits.
func (w *world) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

// After advances the time instead of waiting.
func (w *world) After(ctx context.Context, until time.Time) error {
	if d := until.Sub(w.Now()); d > 0 {
		if err := w.jump(d); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *world) Wall(d time.Duration) time.Duration { return d }

// serial allows only one call at a time, until its answer has been read. If two calls changed one moto queue at the
// same time, moto would lose messages or deliver one twice.
type serial struct {
	mu   sync.Mutex
	next http.RoundTripper
}

func (s *serial) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close() //nolint:errcheck,gosec // fully read
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}

// config returns the configuration of clients. If wrap is not nil, it wraps their transport.
func (w *world) config(wrap func(http.RoundTripper) http.RoundTripper) sdk.Config {
	cfg := emulator.Config(w.endpoint)
	var transport http.RoundTripper = &serial{next: http.DefaultTransport}
	if wrap != nil {
		transport = wrap(transport)
	}
	cfg.HTTPClient = &http.Client{Transport: transport}
	return cfg
}

// deployment provisions a new deployment and returns the configuration of its bus.
func (w *world) deployment(t testing.TB, s bustest.Setup) aws.Config {
	t.Helper()
	name := fmt.Sprintf("t%d", deployments.Add(1))
	c, err := awstest.Provision(t.Context(), w.config(nil), aws.Config{
		EventBus: name, QueuePrefix: name + "-", Bucket: name + "-bucket", Queues: s.Queues, Route: s.Route, Clock: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestProvisionAcceptsWhatExists: the answer of a call is lost, so the SDK repeats the call. Its result already
// exists, which must not be an error.
func TestProvisionAcceptsWhatExists(t *testing.T) {
	t.Parallel()
	w := moto(t)
	c := w.deployment(t, bustest.Setup{})
	if _, err := awstest.Provision(t.Context(), w.config(nil), c); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, c aws.Config) *aws.Bus {
	t.Helper()
	b, err := aws.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// withClients returns c with new clients made from cfg.
func withClients(c aws.Config, cfg sdk.Config) aws.Config {
	c.EventBridge, c.SQS = eventbridge.NewFromConfig(cfg), sqs.NewFromConfig(cfg)
	c.S3 = s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	return c
}

// counter counts the events that the bus puts on the event bus.
type counter struct {
	aws.EventBridge
	entries int
}

func (c *counter) PutEvents(ctx context.Context, in *eventbridge.PutEventsInput, o ...func(*eventbridge.Options)) (*eventbridge.PutEventsOutput, error) {
	c.entries += len(in.Entries)
	return c.EventBridge.PutEvents(ctx, in, o...)
}
