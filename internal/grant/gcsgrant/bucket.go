package gcsgrant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// MakeBucket implements grant.Bucketer (JSON API, Buckets: insert), in the account's project. The bucket has uniform
// access, which lent tokens need (IAM documentation, "Credential Access Boundaries") and which the XML API cannot set.
func (s *Store) MakeBucket(ctx context.Context, bucket string) error {
	o, err := grant.ParsePrefixOf(scheme, bucket)
	if err != nil {
		return err
	}
	if s.opts.Project == "" {
		return fmt.Errorf("gcsgrant: create bucket %s: no project is configured: %w", o, grant.ErrCannotCreateBuckets)
	}
	body, err := json.Marshal(map[string]any{
		"name": o.Bucket, "location": s.opts.Locations[o.Bucket],
		"iamConfiguration": map[string]any{"uniformBucketLevelAccess": map[string]bool{"enabled": true}},
	})
	if err != nil {
		return err
	}
	status, err := s.callJSON(ctx, http.MethodPost, "?project="+url.QueryEscape(s.opts.Project), body)
	if err == nil && status == http.StatusConflict { // it is ours if it can be read
		status, err = s.callJSON(ctx, http.MethodGet, "/"+o.Bucket+"?fields=name", nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%w: another project has it", grant.ErrNoBucket)
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("gcsgrant: create bucket %s: %w", o, err)
	case status == http.StatusForbidden || status == http.StatusBadRequest:
		return fmt.Errorf("gcsgrant: create bucket %s: %w: HTTP %d", o, grant.ErrNoBucket, status)
	case status != http.StatusOK:
		return fmt.Errorf("gcsgrant: create bucket %s: HTTP %d", o, status)
	}
	return nil
}

// callJSON calls the JSON API below /storage/v1/b with the account's token, and returns the status.
func (s *Store) callJSON(ctx context.Context, method, path string, body []byte) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, s.opts.Endpoint+"/storage/v1/b"+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.opts.Token != nil {
		token, err := s.opts.Token.Token()
		if err != nil {
			return 0, fmt.Errorf("%w: %w", grant.ErrCredentials, grant.Redact(err))
		}
		token.SetAuthHeader(req)
	}
	resp, err := s.opts.Client.Do(req)
	if err != nil {
		return 0, grant.Redact(err)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
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
