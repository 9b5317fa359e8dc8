package deploy

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Upload uploads a stack's template and assets to the account's asset bucket, which it creates if it is missing. Keys
// are digests, so existing objects are not uploaded again.
func (t *Target) Upload(ctx context.Context, s Stack) error {
	if err := t.assetBucket(ctx, t.resolve(s.Template.Bucket)); err != nil {
		return err
	}
	for _, a := range append([]Asset{s.Template}, s.Assets...) {
		if err := t.upload(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (t *Target) upload(ctx context.Context, a Asset) error {
	bucket := t.resolve(a.Bucket)
	there, err := t.exists(ctx, bucket, a.Key)
	if err != nil || there {
		return err
	}
	body, err := a.content()
	if err != nil {
		return fmt.Errorf("deploy: %s: %w", a.Name, err)
	}
	if err := t.put(ctx, bucket, a.Key, body); err != nil {
		return err
	}
	t.report(Step{What: "upload", Name: a.Name, Status: "done", Physical: "s3://" + bucket + "/" + a.Key})
	return nil
}

func (t *Target) put(ctx context.Context, bucket, key string, body []byte) error {
	_, err := t.s3.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &bucket, Key: &key, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
		ExpectedBucketOwner: &t.Account,
	})
	if err != nil {
		return fmt.Errorf("deploy: s3://%s/%s: %w", bucket, key, err)
	}
	return nil
}

func (t *Target) exists(ctx context.Context, bucket, key string) (bool, error) {
	_, err := t.s3.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key, ExpectedBucketOwner: &t.Account})
	if statusOf(err) == 404 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("deploy: s3://%s/%s: %w", bucket, key, err)
	}
	return true, nil
}

// statusOf returns the HTTP status of an error response, or 0.
func statusOf(err error) int {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

// codeOf returns AWS's error code, or "".
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// content returns the bytes to upload. The archive of a folder depends only on its files, not on the time.
func (a Asset) content() ([]byte, error) {
	if a.body != nil {
		return a.body, nil
	}
	if !a.Zip {
		return os.ReadFile(a.Path)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	err := filepath.WalkDir(a.Path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(a.Path, path)
		if err != nil {
			return err
		}
		return addFile(w, path, filepath.ToSlash(name))
	})
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func addFile(w *zip.Writer, path, name string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	h.SetMode(info.Mode().Perm() | 0o444) // Lambda runs it as another user
	to, err := w.CreateHeader(h)
	if err != nil {
		return err
	}
	from, err := os.Open(path) //nolint:gosec // a file of the assembly
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // read only
	_, err = io.Copy(to, from)
	return err
}

// assetBucket creates the account's asset bucket: private and encrypted. Prune removes old objects.
func (t *Target) assetBucket(ctx context.Context, bucket string) error {
	_, err := t.s3.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &bucket, ExpectedBucketOwner: &t.Account})
	if err == nil {
		return nil
	}
	if statusOf(err) == 403 {
		return fmt.Errorf(
			"deploy: these credentials may not use bucket %s, or another account has that name: %w",
			bucket, err)
	}
	if statusOf(err) != 404 {
		return fmt.Errorf("deploy: bucket %s: %w", bucket, err)
	}
	in := &s3.CreateBucketInput{Bucket: &bucket}
	if t.Region != "us-east-1" { // which is not a valid constraint
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{
			LocationConstraint: types.BucketLocationConstraint(t.Region)}
	}
	if _, err := t.s3.CreateBucket(ctx, in); err != nil && codeOf(err) != "BucketAlreadyOwnedByYou" {
		return fmt.Errorf("deploy: bucket %s: %w", bucket, err)
	}
	if _, err := t.s3.PutPublicAccessBlock(ctx, &s3.PutPublicAccessBlockInput{
		Bucket: &bucket, PublicAccessBlockConfiguration: &types.PublicAccessBlockConfiguration{
			BlockPublicAcls: aws.Bool(true), BlockPublicPolicy: aws.Bool(true), IgnorePublicAcls: aws.Bool(true),
			RestrictPublicBuckets: aws.Bool(true),
		},
	}); err != nil {
		return fmt.Errorf("deploy: bucket %s: %w", bucket, err)
	}
	t.report(Step{What: "upload", Name: "asset bucket", Status: "made", Physical: "s3://" + bucket})
	return nil
}
