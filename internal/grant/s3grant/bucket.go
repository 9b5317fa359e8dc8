package s3grant

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// MakeBucket implements grant.Bucketer, in the client's region.
func (s *Store) MakeBucket(ctx context.Context, bucket string) error {
	o, err := grant.ParsePrefixOf(scheme, bucket)
	if err != nil {
		return err
	}
	in := &s3.CreateBucketInput{Bucket: &o.Bucket}
	// S3 requires the region's name, except in its first region, where it rejects it.
	if opts := s.client.Options(); opts.BaseEndpoint == nil && opts.Region != "us-east-1" {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{
			LocationConstraint: types.BucketLocationConstraint(opts.Region),
		}
	}
	_, err = s.client.CreateBucket(ctx, in)
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "BucketAlreadyOwnedByYou":
			return nil
		case "BucketAlreadyExists":
			return fmt.Errorf("s3grant: create bucket %s: %w: another account owns the name", o, grant.ErrNoBucket)
		case "AccessDenied", "InvalidBucketName":
			return fmt.Errorf("s3grant: create bucket %s: %w: %s", o, grant.ErrNoBucket, api.ErrorCode())
		}
	}
	return wrapError("create bucket", o, err)
}

// RemoveBucket implements grant.Bucketer.
func (s *Store) RemoveBucket(ctx context.Context, bucket string) error {
	o, err := grant.ParsePrefixOf(scheme, bucket)
	if err != nil {
		return err
	}
	if err := s.empty(ctx, o.Bucket); err != nil {
		return ignoreNoBucket(wrapError("empty", o, err))
	}
	_, err = s.client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &o.Bucket})
	return ignoreNoBucket(wrapError("remove", o, err))
}

// ignoreNoBucket drops the error of a bucket that is missing or not accessible.
func ignoreNoBucket(err error) error {
	if errors.Is(err, grant.ErrNoBucket) {
		return nil
	}
	return err
}

// empty removes all objects, whatever their names, and ends all uploads.
func (s *Store) empty(ctx context.Context, bucket string) error {
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		if len(page.Contents) == 0 {
			continue
		}
		which := make([]types.ObjectIdentifier, len(page.Contents))
		for i, c := range page.Contents {
			which[i].Key = c.Key
		}
		out, err := s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &bucket, Delete: &types.Delete{Objects: which, Quiet: aws.Bool(true)},
		})
		if err != nil {
			return err
		}
		if len(out.Errors) > 0 {
			return fmt.Errorf("%s: %s", aws.ToString(out.Errors[0].Key), aws.ToString(out.Errors[0].Code))
		}
	}
	for uploads := s3.NewListMultipartUploadsPaginator(s.client,
		&s3.ListMultipartUploadsInput{Bucket: &bucket}); uploads.HasMorePages(); {
		page, err := uploads.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, up := range page.Uploads {
			if _, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
				Bucket: &bucket, Key: up.Key, UploadId: up.UploadId,
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// MakeBucket implements grant.Bucketer, in the client's own region.
func (a *AnyRegion) MakeBucket(ctx context.Context, bucket string) error {
	return a.home.MakeBucket(ctx, bucket)
}

// RemoveBucket implements grant.Bucketer.
func (a *AnyRegion) RemoveBucket(ctx context.Context, bucket string) error {
	return a.find(ctx, bucket).RemoveBucket(ctx, bucket)
}
