package gcsgrant

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// MakeBucket implements grant.Bucketer (XML API, PUT Bucket), in the account's project.
func (s *Store) MakeBucket(ctx context.Context, bucket string) error {
	o, err := grant.ParsePrefixOf(scheme, bucket)
	if err != nil {
		return err
	}
	if s.opts.Project == "" {
		return fmt.Errorf("gcsgrant: make %s: no project is configured: %w", o, grant.ErrCannotCreateBuckets)
	}
	r := request{method: http.MethodPut, header: map[string]string{"X-Goog-Project-Id": s.opts.Project}}
	var body []byte
	if at := s.opts.Locations[o.Bucket]; at != "" {
		list := struct {
			XMLName            xml.Name `xml:"CreateBucketConfiguration"`
			LocationConstraint string
		}{LocationConstraint: at}
		if body, err = xml.Marshal(list); err != nil {
			return err
		}
	}
	err = s.call(ctx, grant.Object{Scheme: scheme, Bucket: o.Bucket}, r, body, nil)
	if err != nil && !errors.Is(err, errOwnBucket) {
		return fmt.Errorf("gcsgrant: make %s: %w", o, err)
	}
	return nil
}

// RemoveBucket implements grant.Bucketer: it removes the objects one by one, then the bucket.
func (s *Store) RemoveBucket(ctx context.Context, bucket string) error {
	o, err := grant.ParsePrefixOf(scheme, bucket)
	if err != nil {
		return err
	}
	o.Key = ""
	for {
		page, err := s.List(ctx, o.String(), "") // always the first page: earlier objects have been removed
		if errors.Is(err, grant.ErrNoBucket) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, found := range page.Objects {
			if err := s.Remove(ctx, found.URI); err != nil {
				return err
			}
		}
		if page.Next == "" {
			break
		}
	}
	err = s.call(ctx, o, request{method: http.MethodDelete}, nil, nil)
	if err != nil && !errors.Is(err, grant.ErrNoBucket) {
		return fmt.Errorf("gcsgrant: remove %s: %w", o, err)
	}
	return nil
}
