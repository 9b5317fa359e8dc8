package objects

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/internal/pack/depot"
)

// NewDepot opens the depot in the work bucket. Clients upload pieces directly to S3, with URLs signed with the
// function's own permissions.
func NewDepot(s *lambdahost.Sandbox) *depot.Depot {
	client := s.S3()
	return &depot.Depot{
		Store: &packs{client: client, bucket: s.Env.WorkBucket}, Sign: s3grant.New(client, s3grant.Options{}),
		URI: "s3://" + s.Env.WorkBucket, Now: s.Now,
	}
}

// packs is a shelf in a bucket.
type packs struct {
	client *s3.Client
	bucket string
}

func (p *packs) key(d pack.Digest) *string { return aws.String(pack.Prefix + string(d)) }

func (p *packs) failed(what string, d pack.Digest, err error) error {
	if Missing(err) {
		return fmt.Errorf("objects: %s: %w", d, fs.ErrNotExist)
	}
	return fmt.Errorf("objects: %s %s: %w", what, d, err)
}

// Get implements pack.Source.
func (p *packs) Get(ctx context.Context, d pack.Digest) (io.ReadCloser, error) {
	out, err := p.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &p.bucket, Key: p.key(d)})
	if err != nil {
		return nil, p.failed("read", d, err)
	}
	return out.Body, nil
}

// Stat implements depot.Shelf.
func (p *packs) Stat(ctx context.Context, d pack.Digest) (int64, time.Time, error) {
	out, err := p.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &p.bucket, Key: p.key(d)})
	if err != nil {
		return 0, time.Time{}, p.failed("look at", d, err)
	}
	return aws.ToInt64(out.ContentLength), aws.ToTime(out.LastModified), nil
}

// Touch implements depot.Shelf. For S3, a copy onto itself that changes metadata counts as written.
func (p *packs) Touch(ctx context.Context, d pack.Digest) error {
	_, err := p.client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: &p.bucket, Key: p.key(d), CopySource: aws.String(p.bucket + "/" + *p.key(d)),
		MetadataDirective: types.MetadataDirectiveReplace,
	})
	if err != nil {
		return p.failed("renew", d, err)
	}
	return nil
}
