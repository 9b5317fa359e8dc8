package grant

import (
	"context"
	"errors"
	"fmt"
)

// Bucketer makes and removes buckets. A Store that can is one as well.
type Bucketer interface {
	// MakeBucket makes a bucket, named by its URI. One that is the account's own already is no error; one that is
	// somebody else's is ErrNoBucket.
	MakeBucket(ctx context.Context, bucket string) error
	// RemoveBucket removes a bucket and all that is in it. One that is not there is no error, nor is one of somebody
	// else's.
	RemoveBucket(ctx context.Context, bucket string) error
}

// ErrNoMaking is that of a store that makes no buckets.
var ErrNoMaking = fmt.Errorf("grant: buckets are not made here: %w", errors.ErrUnsupported)

// MakeBucket has a store make a bucket, if it does: ErrNoMaking else.
func MakeBucket(ctx context.Context, s Store, bucket string) error {
	if b, ok := s.(Bucketer); ok {
		return b.MakeBucket(ctx, bucket)
	}
	return fmt.Errorf("%s: %w", bucket, ErrNoMaking)
}

// RemoveBucket has a store remove a bucket, if it does: ErrNoMaking else.
func RemoveBucket(ctx context.Context, s Store, bucket string) error {
	if b, ok := s.(Bucketer); ok {
		return b.RemoveBucket(ctx, bucket)
	}
	return fmt.Errorf("%s: %w", bucket, ErrNoMaking)
}

// MakeBucket implements Bucketer by the bucket's store.
func (m Mux) MakeBucket(ctx context.Context, bucket string) error {
	key, err := m.find(bucket)
	if err != nil {
		return err
	}
	return MakeBucket(ctx, m[key], bucket)
}

// RemoveBucket implements Bucketer by the bucket's store.
func (m Mux) RemoveBucket(ctx context.Context, bucket string) error {
	key, err := m.find(bucket)
	if err != nil {
		return err
	}
	return RemoveBucket(ctx, m[key], bucket)
}

// BucketOf is the URI of the bucket that a URI lies in.
func BucketOf(uri string) (string, error) {
	o, err := parse(uri)
	if err != nil {
		return "", err
	}
	return Object{Scheme: o.Scheme, Bucket: o.Bucket}.String(), nil
}
