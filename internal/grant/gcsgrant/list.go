package gcsgrant

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

var (
	errNoObject = errors.New("gcsgrant: no such object")
)

// List implements grant.Store (XML API, List objects, version 2).
func (s *Store) List(ctx context.Context, prefix, after string) (grant.Page, error) {
	o, err := grant.ParsePrefixOf(scheme, prefix)
	if err != nil {
		return grant.Page{}, err
	}
	query := map[string]string{"list-type": "2", "max-keys": fmt.Sprint(grant.PageSize)}
	if o.Key != "" {
		query["prefix"] = o.Key
	}
	if after != "" {
		query["start-after"] = after
	}
	var answer struct {
		IsTruncated bool
		Contents    []struct {
			Key  string
			Size int64
		}
	}
	bucket := grant.Object{Scheme: scheme, Bucket: o.Bucket}
	if err := s.call(ctx, bucket, request{method: http.MethodGet, query: query}, nil, &answer); err != nil {
		return grant.Page{}, fmt.Errorf("gcsgrant: list %s: %w", o, err)
	}
	var page grant.Page
	for _, x := range answer.Contents {
		if err := page.Add(o, x.Key, x.Size); err != nil {
			return grant.Page{}, err
		}
		if answer.IsTruncated {
			page.Next = x.Key
		}
	}
	return page, nil
}

// Remove implements grant.Store.
func (s *Store) Remove(ctx context.Context, uri string) error {
	o, err := grant.ParseOf(scheme, uri)
	if err != nil {
		return err
	}
	err = s.call(ctx, o, request{method: http.MethodDelete}, nil, nil)
	if err != nil && !errors.Is(err, errNoObject) {
		return fmt.Errorf("gcsgrant: remove %s: %w", o, err)
	}
	return nil
}
