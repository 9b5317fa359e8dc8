package dynamo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Options of a store; the zero value is right for a function in the cloud.
type Options struct {
	// Attempts is the maximum number of tries of a request; 0 means 8. The pause between tries is random, at most 20
	// ms, doubling each time up to 2 s.
	Attempts int
	// RequestTimeout bounds one attempt, so that a lost answer is detected; 0 means 5 s. It has no
	// effect if the configuration has its own HTTP client.
	RequestTimeout time.Duration
	// Meter counts requests and capacity units; nil counts nothing.
	Meter *Meter
	// Log receives errors about unreadable outbox items; nil discards them.
	Log *slog.Logger
	// Now orders the events of the outbox; nil means time.Now.
	Now func() time.Time
	// Random generates transaction tokens and process tags; nil means crypto/rand.
	Random io.Reader
}

const (
	defaultAttempts = 8
	defaultTimeout  = 5 * time.Second
)

// Store is a store.Store in a DynamoDB table. Make one with New. It has no state that another
// process would need, so any number of processes can use the same table.
type Store struct {
	client *dynamodb.Client
	table  *string
	meter  *Meter
	log    *slog.Logger
	now    func() time.Time
	closed atomic.Bool

	random struct {
		sync.Mutex
		from io.Reader
	}
	retryer aws.Retryer
	names   *sequence
	places  places
}

var _ store.Store = (*Store)(nil)

// New returns a store in an existing table (TableInput). It makes no request.
func New(cfg aws.Config, table string, o Options) (*Store, error) {
	s := &Store{table: aws.String(table), meter: o.Meter, log: o.Log, now: o.Now}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.random.from = o.Random
	if s.random.from == nil {
		s.random.from = rand.Reader
	}
	attempts := o.Attempts
	if attempts == 0 {
		attempts = defaultAttempts
	}
	s.retryer = newRetryer(attempts)
	s.client = dynamodb.NewFromConfig(cfg, func(d *dynamodb.Options) {
		d.Retryer = s.retryer
		if cfg.HTTPClient == nil {
			timeout := o.RequestTimeout
			if timeout == 0 {
				timeout = defaultTimeout
			}
			d.HTTPClient = awshttp.NewBuildableClient().WithTimeout(timeout)
		}
	})
	tag, err := s.randomHex()
	if err != nil {
		return nil, err
	}
	s.names = newSequence(tag[:sequenceTag], s.now)
	return s, nil
}

// Sweep implements store.Store: DynamoDB removes expired items by itself, within days.
func (s *Store) Sweep(ctx context.Context, _ time.Time) error { return s.usable(ctx) }

// Close implements store.Store.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return fmt.Errorf("dynamo: %w", store.ErrClosed)
	}
	return ctx.Err()
}

const randomBytes = 16

// randomToken returns 16 random bytes.
func (s *Store) randomToken() ([]byte, error) {
	b := make([]byte, randomBytes)
	s.random.Lock()
	defer s.random.Unlock()
	if _, err := io.ReadFull(s.random.from, b); err != nil {
		return nil, fmt.Errorf("dynamo: random: %w", err)
	}
	return b, nil
}

// randomHex returns 32 hexadecimal digits, a token for a request.
func (s *Store) randomHex() (string, error) {
	b, err := s.randomToken()
	return hex.EncodeToString(b), err
}
