package azgrant

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

var errNoBlob = errors.New("azgrant: no such blob")

// List implements grant.Store (Blob service REST API: List Blobs). Page.Next is Azure's marker.
func (s *Store) List(ctx context.Context, prefix, after string) (grant.Page, error) {
	o, err := grant.ParsePrefixOf(scheme, prefix)
	if err != nil {
		return grant.Page{}, err
	}
	query := map[string]string{"restype": "container", "comp": "list", "maxresults": fmt.Sprint(grant.PageSize)}
	if o.Key != "" {
		query["prefix"] = o.Key
	}
	if after != "" {
		query["marker"] = after
	}
	container := grant.Object{Scheme: scheme, Bucket: o.Bucket}
	text, err := s.call(ctx, container, request{method: http.MethodGet, query: query, rights: listing.String()}, nil)
	if err != nil {
		return grant.Page{}, fmt.Errorf("azgrant: list %s: %w", o, err)
	}
	var answer struct {
		Blobs []struct {
			Name string
			Size int64 `xml:"Properties>Content-Length"`
		} `xml:"Blobs>Blob"`
		NextMarker string
	}
	if err := xml.Unmarshal(text, &answer); err != nil {
		return grant.Page{}, fmt.Errorf("azgrant: list %s: %w", o, err)
	}
	page := grant.Page{Next: answer.NextMarker}
	for _, x := range answer.Blobs {
		if err := page.Add(o, x.Name, x.Size); err != nil {
			return grant.Page{}, err
		}
	}
	return page, nil
}

// Remove implements grant.Store (Delete Blob).
func (s *Store) Remove(ctx context.Context, uri string) error {
	o, err := grant.ParseOf(scheme, uri)
	if err != nil {
		return err
	}
	_, err = s.call(ctx, o, request{method: http.MethodDelete, rights: removing.String()}, nil)
	if err != nil && !errors.Is(err, errNoBlob) {
		return fmt.Errorf("azgrant: remove %s: %w", o, err)
	}
	return nil
}
