// Package objectstest is an in-memory S3 for tests.
package objectstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Bucket is an in-memory S3 bucket.
type Bucket struct {
	Objects map[string][]byte
	Puts    int // number of PutObject calls
}

// GetObject returns an object, or a range of it.
func (b *Bucket) GetObject(_ context.Context, in *s3.GetObjectInput,
	_ ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	body, ok := b.Objects[*in.Key]
	if !ok {
		return nil, &types.NoSuchKey{}
	}
	if in.Range != nil {
		var from, to int
		if _, err := fmt.Sscanf(*in.Range, "bytes=%d-%d", &from, &to); err != nil {
			return nil, err
		}
		body = body[from:min(to+1, len(body))]
	}
	return &s3.GetObjectOutput{Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// PutObject stores an object; if the request says so, only if it does not exist.
func (b *Bucket) PutObject(_ context.Context, in *s3.PutObjectInput,
	_ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	b.Puts++
	if _, exists := b.Objects[*in.Key]; exists && aws.ToString(in.IfNoneMatch) == "*" {
		said := &http.Response{StatusCode: http.StatusPreconditionFailed}
		return nil, &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: said}, Err: errors.New("exists"),
		}
	}
	body, err := io.ReadAll(in.Body)
	b.Objects[*in.Key] = body
	return &s3.PutObjectOutput{}, err
}

// DeleteObject removes an object.
func (b *Bucket) DeleteObject(_ context.Context, in *s3.DeleteObjectInput,
	_ ...func(*s3.Options)) (*s3.DeleteObjectOutput, error) {
	delete(b.Objects, *in.Key)
	return &s3.DeleteObjectOutput{}, nil
}

// ListObjectsV2 lists the objects below a prefix, in one page.
func (b *Bucket) ListObjectsV2(_ context.Context, in *s3.ListObjectsV2Input,
	_ ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	out := &s3.ListObjectsV2Output{}
	for _, key := range slices.Sorted(maps.Keys(b.Objects)) {
		if strings.HasPrefix(key, aws.ToString(in.Prefix)) {
			out.Contents = append(out.Contents, types.Object{Key: &key})
		}
	}
	return out, nil
}
