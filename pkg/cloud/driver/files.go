package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/names"
)

// MaxFile bounds a file of a bucket whose files are jobs, bytes: what a job file may have.
const MaxFile = 64 << 20

// ErrLarge says that a file is larger than is read.
var ErrLarge = errors.New("the file is too large")

// Files reads and writes the files of the one bucket of a cloud whose files are jobs, and no others.
type Files interface {
	// Read returns an object's content, and which writing of it that is. A bucket is a URL: gs://acme-jobs. It fails
	// with fs.ErrNotExist where there is none, and with ErrLarge above MaxFile.
	Read(ctx context.Context, bucket, key string) (body []byte, version string, err error)
	// Write puts an object, a remark about another, in the place of what was there.
	Write(ctx context.Context, bucket, key string, body []byte) error
	// Remove removes an object. That there is none is no error.
	Remove(ctx context.Context, bucket, key string) error
}

// DAGScheme is that of buckets whose files become jobs, beside those of AWS.
const DAGScheme = "gs://"

// DAGPlace reads where files become jobs, gs://BUCKET or gs://BUCKET/FOLDER: the bucket's URL, and what names of
// objects in it begin with. Of an empty text both are empty.
func DAGPlace(text string) (bucket, prefix string, err error) {
	if text == "" {
		return "", "", nil
	}
	name, prefix, _ := strings.Cut(strings.TrimPrefix(text, DAGScheme), "/")
	if !strings.HasPrefix(text, DAGScheme) || !names.Bucket(name) {
		return "", "", fmt.Errorf("dags %q is not gs://BUCKET or gs://BUCKET/FOLDER", text)
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/" // a folder, and not what begins as it does
	}
	return DAGScheme + name, prefix, nil
}
