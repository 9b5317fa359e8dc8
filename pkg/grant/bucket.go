package grant

import (
	"context"
	"errors"
	"fmt"
)

// Bucketer creates and removes buckets. A Store that can do so also implements Bucketer.
type Bucketer interface {
	// MakeBucket creates a bucket, given by its URI. It is no error if the account already owns it. If another account
	// owns the name, the error is ErrNoBucket.
	MakeBucket(ctx context.Context, bucket string) error
	// RemoveBucket removes a bucket and all objects in it. It is no error if the bucket does not exist or belongs to
	// another account.
	RemoveBucket(ctx context.Context, bucket string) error
}

// ErrCannotCreateBuckets is the error of a store that cannot create buckets.
var ErrCannotCreateBuckets = fmt.Errorf("grant: this store cannot create buckets: %w", errors.ErrUnsupported)

// MakeBucket creates a bucket in a store. It fails with ErrCannotCreateBuckets if the store is not a Bucketer.
func MakeBucket(ctx context.Context, s Store, bucket string) error {
	if b, ok := s.(Bucketer); ok {
		return b.MakeBucket(ctx, bucket)
	}
	return fmt.Errorf("%s: %w", bucket, ErrCannotCreateBuckets)
}

// RemoveBucket removes a bucket of a store. It fails with ErrCannotCreateBuckets if the store is not a Bucketer.
func RemoveBucket(ctx context.Context, s Store, bucket string) error {
	if b, ok := s.(Bucketer); ok {
		return b.RemoveBucket(ctx, bucket)
	}
	return fmt.Errorf("%s: %w", bucket, ErrCannotCreateBuckets)
}

// MakeBucket implements Bucketer with the bucket's store.
func (m Mux) MakeBucket(ctx context.Context, bucket string) error {
	key, err := m.find(bucket)
	if err != nil {
		return err
	}
	return MakeBucket(ctx, m[key], bucket)
}

// RemoveBucket implements Bucketer with the bucket's store.
func (m Mux) RemoveBucket(ctx context.Context, bucket string) error {
	key, err := m.find(bucket)
	if err != nil {
		return err
	}
	return RemoveBucket(ctx, m[key], bucket)
}

// BucketOf returns the URI of the bucket that contains a URI.
func BucketOf(uri string) (string, error) {
	o, err := parse(uri)
	if err != nil {
		return "", err
	}
	return Object{Scheme: o.Scheme, Bucket: o.Bucket}.String(), nil
}
