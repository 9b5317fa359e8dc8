package s3grant

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// List implements grant.Store.
func (s *Store) List(ctx context.Context, prefix, after string) (grant.Page, error) {
	o, err := grant.ParsePrefixOf(scheme, prefix)
	if err != nil {
		return grant.Page{}, err
	}
	in := &s3.ListObjectsV2Input{Bucket: &o.Bucket, Prefix: &o.Key, MaxKeys: aws.Int32(grant.PageSize)}
	if after != "" {
		in.StartAfter = &after
	}
	out, err := s.client.ListObjectsV2(ctx, in)
	if err != nil {
		return grant.Page{}, wrapError("list", o, err)
	}
	var page grant.Page
	for _, x := range out.Contents {
		if err := page.Add(o, aws.ToString(x.Key), aws.ToInt64(x.Size)); err != nil {
			return grant.Page{}, err
		}
		if aws.ToBool(out.IsTruncated) {
			page.Next = aws.ToString(x.Key)
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
	_, err = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &o.Bucket, Key: &o.Key})
	return wrapError("remove", o, err)
}
