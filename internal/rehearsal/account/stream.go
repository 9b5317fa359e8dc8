package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// streamFeed reads the shards of a table's stream for a function, in order (AWS Lambda developer guide, "Process
// DynamoDB records with Lambda"): a failed batch is retried from the record that the answer names on, halved if the
// mapping says so, until its retries are used up.
type streamFeed struct {
	mapping  *Mapping
	function *sandbox.Function
	cfg      aws.Config
	log      *slog.Logger
	dead     func(ctx context.Context, arn string, body []byte)

	shard    string // being read
	after    string // sequence number of the last record read from it
	iterator string // "" if a new one is needed
	ended    string // the last shard that was read to its end
}

// look is the interval at which a shard without new records is read. Lambda reads four times a second.
const look = 250 * time.Millisecond

type record = map[string]any

func (f *streamFeed) run(ctx context.Context) {
	for ctx.Err() == nil {
		records, err := f.read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				f.log.Warn("stream", "err", err)
				_ = clock.Pause(ctx, time.Second)
			}
			continue
		}
		if len(records) == 0 {
			_ = clock.Pause(ctx, look)
			continue
		}
		f.deliver(ctx, f.filter(records))
	}
}

// read returns the new records of the current shard. A stream sometimes starts a new shard. All its records are later
// than those of the previous one.
func (f *streamFeed) read(ctx context.Context) ([]record, error) {
	if f.iterator == "" {
		if err := f.find(ctx); err != nil || f.iterator == "" {
			return nil, err
		}
	}
	var out struct {
		Records           []record
		NextShardIterator string // empty if the shard has been read to its end
	}
	err := f.call(ctx, "GetRecords", map[string]any{"ShardIterator": f.iterator, "Limit": 1000}, &out)
	if err != nil {
		f.iterator = "" // it may be too old
		return nil, err
	}
	f.iterator = out.NextShardIterator
	if f.iterator == "" {
		f.ended, f.after = f.shard, ""
	} else if n := len(out.Records); n > 0 {
		if d, ok := out.Records[n-1]["dynamodb"].(map[string]any); ok {
			f.after = fmt.Sprint(d["SequenceNumber"])
		}
	}
	return out.Records, nil
}

// find finds where to continue: after the last record read from the current shard, or at the beginning of the next one,
// which may not exist yet.
func (f *streamFeed) find(ctx context.Context) error {
	var stream struct {
		StreamDescription struct {
			Shards []shard
		}
	}
	if err := f.call(ctx, "DescribeStream", map[string]any{"StreamArn": f.mapping.Source}, &stream); err != nil {
		return err
	}
	if f.shard == "" || f.shard == f.ended {
		next := following(stream.StreamDescription.Shards, f.ended)
		if next == "" {
			return nil
		}
		f.shard = next
	}
	in := map[string]any{"StreamArn": f.mapping.Source, "ShardId": f.shard, "ShardIteratorType": "TRIM_HORIZON"}
	if f.after != "" {
		in["ShardIteratorType"], in["SequenceNumber"] = "AFTER_SEQUENCE_NUMBER", f.after
	}
	var it struct{ ShardIterator string }
	err := f.call(ctx, "GetShardIterator", in, &it)
	f.iterator = it.ShardIterator
	return err
}

type shard struct {
	ID     string `json:"ShardId"`
	Parent string `json:"ParentShardId"`
}

// following returns the shard after one, or the oldest. The table has one partition, so no shard has two children.
func following(all []shard, after string) string {
	for _, s := range all {
		known := slices.ContainsFunc(all, func(p shard) bool { return p.ID == s.Parent })
		if after == "" && !known || after != "" && s.Parent == after {
			return s.ID
		}
	}
	return ""
}

func (f *streamFeed) filter(records []record) []record {
	var out []record
	for _, r := range records {
		ok, err := f.mapping.accepts(r)
		if err != nil {
			f.log.Error("filter", "err", err)
		}
		if ok {
			r["eventSource"], r["eventSourceARN"], r["awsRegion"] = "aws:dynamodb", f.mapping.Source, Region
			out = append(out, r)
		}
	}
	return out
}

// deliver invokes the function with records, in batches and in order.
func (f *streamFeed) deliver(ctx context.Context, records []record) {
	size := f.mapping.Batch
	for tries := 0; len(records) > 0 && ctx.Err() == nil; {
		n := min(len(records), size)
		done := f.batch(ctx, records[:n])
		records = records[done:]
		if done == n {
			tries, size = 0, f.mapping.Batch
			continue
		}
		if done > 0 {
			tries = 0
		}
		if f.mapping.Bisect && n-done > 1 {
			size = max((n-done)/2, 1)
			continue
		}
		if tries++; tries > f.mapping.Retries {
			f.giveUp(ctx, records[:1])
			records, tries, size = records[1:], 0, f.mapping.Batch
			continue
		}
		_ = clock.Pause(ctx, min(time.Duration(tries)*200*time.Millisecond, 2*time.Second))
	}
}

// batch returns how many records from the start were processed.
func (f *streamFeed) batch(ctx context.Context, records []record) int {
	payload, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		f.log.Error("stream", "err", err)
		return len(records)
	}
	answer, err := f.function.Invoke(context.WithoutCancel(ctx), payload)
	for errors.Is(err, sandbox.ErrThrottled) && ctx.Err() == nil { // not the function's failure
		_ = clock.Pause(ctx, 200*time.Millisecond)
		answer, err = f.function.Invoke(context.WithoutCancel(ctx), payload)
	}
	if err != nil {
		f.log.Info("invocation failed", "function", f.mapping.Function, "records", len(records), "err", err)
		return 0
	}
	failed, err := failures(answer)
	if err != nil {
		f.log.Warn("answer", "function", f.mapping.Function, "err", err)
		return 0
	}
	if !f.mapping.Partial || len(failed) == 0 {
		return len(records)
	}
	for i, r := range records {
		if d, ok := r["dynamodb"].(map[string]any); ok && failed[fmt.Sprint(d["SequenceNumber"])] {
			return i
		}
	}
	return 0
}

// giveUp sends the position of the records to the on-failure destination, as Lambda does.
func (f *streamFeed) giveUp(ctx context.Context, records []record) {
	first, _ := records[0]["dynamodb"].(map[string]any)
	body, err := json.Marshal(map[string]any{
		"requestContext": map[string]any{"functionArn": f.function.ARN, "condition": "RetryAttemptsExhausted"},
		"DDBStreamBatchInfo": map[string]any{"streamArn": f.mapping.Source,
			"startSequenceNumber": first["SequenceNumber"], "batchSize": len(records)},
	})
	if err == nil && f.mapping.OnFailure != "" {
		f.dead(ctx, f.mapping.OnFailure, body)
	}
}

// call calls DynamoDB Streams. Its JSON is passed on to the function as it is.
func (f *streamFeed) call(ctx context.Context, action string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, *f.cfg.BaseEndpoint+"/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Amz-Target", "DynamoDBStreams_20120810."+action)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	keys, err := f.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(sum[:]), "dynamodb", Region,
		time.Now()); err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // only read from
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("rehearsal: %s: %s: %.300s", action, res.Status, raw)
	}
	return json.Unmarshal(raw, out)
}
