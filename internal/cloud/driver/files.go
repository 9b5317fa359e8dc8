package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/names"
)

// MaxFile is the maximum size of a file in a bucket of job files, in bytes. It is the same as that of a job file.
const MaxFile = 64 << 20

// ErrLarge means that a file exceeds the maximum size.
var ErrLarge = errors.New("the file is too large")

// Files reads and writes the files in a cloud's one bucket of job files, and in no other bucket.
type Files interface {
	// Read returns an object's content and its version. A bucket is a URL: gs://acme-jobs. It fails with
	// fs.ErrNotExist if the object is missing, and with ErrLarge above MaxFile.
	Read(ctx context.Context, bucket, key string) (body []byte, version string, err error)
	// Write writes an object with a message about another object. It replaces an existing object.
	Write(ctx context.Context, bucket, key string, body []byte) error
	// Remove removes an object. A missing object is not an error.
	Remove(ctx context.Context, bucket, key string) error
}

// Announcer publishes messages on topics of users.
type Announcer interface {
	// Announce publishes a message. The topic is a URL: pubsub://PROJECT/TOPIC. Attributes are for filters of the
	// topic's subscriptions. It may publish the message twice.
	Announce(ctx context.Context, topic string, body []byte, attributes map[string]string) error
}

// DAGScheme is the URL scheme of buckets of job files outside of AWS.
const DAGScheme = "gs://"

// DAGPlace parses the place of job files, gs://BUCKET or gs://BUCKET/FOLDER, into the bucket's URL and the prefix of
// its objects' names. For an empty text both are empty.
func DAGPlace(text string) (bucket, prefix string, err error) {
	if text == "" {
		return "", "", nil
	}
	name, prefix, _ := strings.Cut(strings.TrimPrefix(text, DAGScheme), "/")
	if !strings.HasPrefix(text, DAGScheme) || !names.Bucket(name) {
		return "", "", fmt.Errorf("dags %q is not gs://BUCKET or gs://BUCKET/FOLDER", text)
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/" // only the folder, not other names with this prefix
	}
	return DAGScheme + name, prefix, nil
}
