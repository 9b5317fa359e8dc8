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

// Options of a store; the zero value suits a function in the cloud.
type Options struct {
	// Attempts is how often a request is made before its failure is an error; 0 is 8. Between them
	// passes up to 20 ms, doubled each time, up to 2 s.
	Attempts int
	// RequestTimeout bounds one attempt, so that a lost answer is noticed; 0 is 5 s. It has no
	// effect where the configuration brings an HTTP client of its own.
	RequestTimeout time.Duration
	// Meter counts requests and capacity units; nil counts nothing.
	Meter *Meter
	// Log is told of outbox items that cannot be read; nil discards.
	Log *slog.Logger
	// Now orders the events of the outbox; nil is time.Now.
	Now func() time.Time
	// Random names transactions and tells processes apart; nil is crypto/rand.
	Random io.Reader
}

const (
	defaultAttempts = 8
	defaultTimeout  = 5 * time.Second
)

// Store is a store.Store in a DynamoDB table. Make one with New; it keeps no state that another
// one would need, so any number of processes use the same table.
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

// New returns a store in the table, which exists (TableInput). It makes no request.
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

// Sweep implements store.Store: DynamoDB removes what has expired by itself, within days.
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

// randomHex returns 32 hexadecimal digits, which is a good token of a request.
func (s *Store) randomHex() (string, error) {
	b, err := s.randomToken()
	return hex.EncodeToString(b), err
}
