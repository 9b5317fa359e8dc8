// Package lazy opens stores when they are first used.
package lazy

import (
	"context"
	"fmt"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Store is a store that is opened at its first use. If that fails, it tries again at the next use.
type Store struct {
	Open func(context.Context) (grant.Store, error)

	mu    sync.Mutex
	store grant.Store
}

func (s *Store) get(ctx context.Context) (grant.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	opened, err := s.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", grant.ErrCredentials, err)
	}
	s.store = opened
	return opened, nil
}

// Sign implements grant.Signer.
func (s *Store) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	opened, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	return opened.Sign(ctx, wants...)
}

// Lend implements grant.Lender.
func (s *Store) Lend(ctx context.Context, loan grant.Loan) (grant.Credentials, error) {
	opened, err := s.get(ctx)
	if err != nil {
		return grant.Credentials{}, err
	}
	return grant.Lend(ctx, opened, loan)
}

// MakeBucket implements grant.Bucketer.
func (s *Store) MakeBucket(ctx context.Context, bucket string) error {
	opened, err := s.get(ctx)
	if err != nil {
		return err
	}
	return grant.MakeBucket(ctx, opened, bucket)
}

// RemoveBucket implements grant.Bucketer.
func (s *Store) RemoveBucket(ctx context.Context, bucket string) error {
	opened, err := s.get(ctx)
	if err != nil {
		return err
	}
	return grant.RemoveBucket(ctx, opened, bucket)
}

// Begin implements grant.Store.
func (s *Store) Begin(ctx context.Context, uri string) (string, error) {
	opened, err := s.get(ctx)
	if err != nil {
		return "", err
	}
	return opened.Begin(ctx, uri)
}

// Complete implements grant.Store.
func (s *Store) Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error {
	opened, err := s.get(ctx)
	if err != nil {
		return err
	}
	return opened.Complete(ctx, uri, upload, parts)
}

// Abort implements grant.Store.
func (s *Store) Abort(ctx context.Context, uri, upload string) error {
	opened, err := s.get(ctx)
	if err != nil {
		return err
	}
	return opened.Abort(ctx, uri, upload)
}

// List implements grant.Store.
func (s *Store) List(ctx context.Context, prefix, after string) (grant.Page, error) {
	opened, err := s.get(ctx)
	if err != nil {
		return grant.Page{}, err
	}
	return opened.List(ctx, prefix, after)
}

// Remove implements grant.Store.
func (s *Store) Remove(ctx context.Context, uri string) error {
	opened, err := s.get(ctx)
	if err != nil {
		return err
	}
	return opened.Remove(ctx, uri)
}
