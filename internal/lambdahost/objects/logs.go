package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/api"
)

// MaxLogBytes is how much of one log is kept.
const MaxLogBytes = 256 << 20

// Logs keeps what tasks print: one object for each piece, named by its offset, below logs/ of the work bucket. An object
// is written once: two agents, or two tries of one, cannot tear a log.
type Logs struct {
	Client Client
	Bucket string
	// Look is how often Wait looks; 1 s when 0.
	Look time.Duration

	mu   sync.Mutex
	ends map[string]int64 // of the logs written by this sandbox: spares asking S3
}

// endsMost bounds what is remembered.
const endsMost = 4096

// prefix is where a log lies.
func prefix(l api.Log) (string, error) {
	if !plain(l.Job) || !plain(l.Attempt) || l.Rank < 0 {
		return "", fmt.Errorf("objects: %w: %.64q %.64q %d", api.ErrNoLog, l.Job, l.Attempt, l.Rank)
	}
	return path.Join("logs", l.Job, l.Attempt, "rank"+strconv.Itoa(l.Rank)) + "/", nil
}

func plain(name string) bool {
	return name != "" && len(name) <= 200 && name[0] != '.' && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	}) < 0
}

// piece is the name of the object that begins at an offset. Names sort as offsets do.
func piece(prefix string, offset int64) string { return fmt.Sprintf("%s%016x", prefix, offset) }

// Append implements api.Logs.
func (l *Logs) Append(ctx context.Context, log api.Log, offset int64, data []byte) error {
	at, err := prefix(log)
	if err != nil {
		return err
	}
	end, known := l.end(at)
	if !known || end != offset {
		if end, err = l.size(ctx, at); err != nil {
			return err
		}
	}
	switch {
	case end != offset:
		return &api.OffsetError{Want: end}
	case len(data) == 0 || end >= MaxLogBytes: // beyond the bound it is accepted and dropped
		return nil
	}
	key := piece(at, offset)
	_, err = l.Client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &l.Bucket, Key: &key, Body: bytes.NewReader(data), ContentType: aws.String("text/plain; charset=utf-8"), IfNoneMatch: aws.String("*"),
	})
	if code := status(err); code == http.StatusPreconditionFailed || code == http.StatusConflict {
		// Written before, by a try whose answer was lost or by another.
		l.forget(at)
		if end, err = l.size(ctx, at); err == nil {
			err = &api.OffsetError{Want: end}
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("objects: s3://%s/%s: %w", l.Bucket, key, err)
	}
	l.note(at, offset+int64(len(data)))
	return nil
}

func (l *Logs) end(at string) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end, ok := l.ends[at]
	return end, ok
}

func (l *Logs) note(at string, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends == nil || len(l.ends) >= endsMost {
		l.ends = map[string]int64{}
	}
	l.ends[at] = end
}

func (l *Logs) forget(at string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ends, at)
}

// part is one object of a log.
type part struct {
	key          string
	offset, size int64
}

// parts lists the pieces of a log that begin after a key, to the end.
func (l *Logs) parts(ctx context.Context, at, after string) ([]part, error) {
	in := &s3.ListObjectsV2Input{Bucket: &l.Bucket, Prefix: &at}
	if after != "" {
		in.StartAfter = &after
	}
	var out []part
	for {
		page, err := l.Client.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("objects: s3://%s/%s: %w", l.Bucket, at, err)
		}
		for _, o := range page.Contents {
			key := aws.ToString(o.Key)
			if offset, err := strconv.ParseInt(strings.TrimPrefix(key, at), 16, 64); err == nil {
				out = append(out, part{key, offset, aws.ToInt64(o.Size)})
			}
		}
		if !aws.ToBool(page.IsTruncated) {
			return out, nil
		}
		in.ContinuationToken = page.NextContinuationToken
	}
}

// size is where a log ends, 0 when there is none yet.
func (l *Logs) size(ctx context.Context, at string) (int64, error) {
	all, err := l.parts(ctx, at, "")
	if err != nil || len(all) == 0 {
		return 0, err
	}
	last := all[len(all)-1]
	l.note(at, last.offset+last.size)
	return last.offset + last.size, nil
}

// Size implements api.Logs.
func (l *Logs) Size(ctx context.Context, log api.Log) (int64, error) {
	at, err := prefix(log)
	if err != nil {
		return 0, err
	}
	n, err := l.size(ctx, at)
	if err == nil && n == 0 {
		return 0, fmt.Errorf("objects: %w", api.ErrNoLog)
	}
	return n, err
}

// Read implements api.Logs.
func (l *Logs) Read(ctx context.Context, log api.Log, offset int64, p []byte) (int, error) {
	at, err := prefix(log)
	if err != nil {
		return 0, err
	}
	// A piece holds at most what an agent may send at once, so the one that offset lies in begins shortly before it.
	after := ""
	if from := offset - wire.MaxLogChunk; from > 0 {
		after = piece(at, from)
	}
	all, err := l.parts(ctx, at, after)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 && offset == 0 {
		return 0, fmt.Errorf("objects: %w", api.ErrNoLog)
	}
	for _, o := range all {
		if offset >= o.offset && offset < o.offset+o.size {
			return l.read(ctx, o, offset-o.offset, p)
		}
	}
	return 0, io.EOF
}

func (l *Logs) read(ctx context.Context, o part, skip int64, p []byte) (int, error) {
	n := min(int64(len(p)), o.size-skip)
	out, err := l.Client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &l.Bucket, Key: &o.key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", skip, skip+n-1)),
	})
	if err != nil {
		return 0, fmt.Errorf("objects: s3://%s/%s: %w", l.Bucket, o.key, err)
	}
	defer out.Body.Close() //nolint:errcheck // only read from
	read, err := io.ReadFull(out.Body, p[:n])
	if err != nil && (read == 0 || !errors.Is(err, io.ErrUnexpectedEOF)) {
		return read, fmt.Errorf("objects: s3://%s/%s: %w", l.Bucket, o.key, err)
	}
	return read, nil
}

// Wait implements api.Logs. Other sandboxes write, so it looks.
func (l *Logs) Wait(ctx context.Context, log api.Log, offset int64) error {
	at, err := prefix(log)
	if err != nil {
		return err
	}
	look := l.Look
	if look <= 0 {
		look = time.Second
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		if n, err := l.size(ctx, at); err != nil || n > offset {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
