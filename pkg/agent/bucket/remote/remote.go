// Package remote opens the buckets of the clouds: s3://, gs:// and azblob://, with the credentials that the machine has
// and the query parameters that gocloud.dev documents for each (s3://bucket?region=eu-west-1).
package remote

import (
	"context"
	"net/http"
	"net/url"

	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"

	"github.com/tradewind-broker/tradewind/pkg/agent/bucket"
)

// Openers returns openers for directories and for the three clouds.
func Openers() bucket.Openers {
	o := bucket.Local()
	for _, scheme := range []string{gcsblob.Scheme, azureblob.Scheme} {
		o[scheme] = open
	}
	o[s3blob.Scheme] = newS3(http.DefaultClient, "https://s3.us-east-1.amazonaws.com").open
	return o
}

// open leaves it to the library, which looks for credentials at the first use of each cloud only.
func open(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	return blob.DefaultURLMux().OpenBucketURL(ctx, u)
}
