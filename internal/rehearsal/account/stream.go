package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
	"github.com/tradewind-broker/tradewind/pkg/clock"
)

// streamFeed reads the shards of a table's stream for a function, in order (AWS Lambda developer guide, "Process
// DynamoDB records with Lambda"): a batch that fails comes again, from the record on that the answer names, halved when
// the mapping says so, until its tries are over.
type streamFeed struct {
	mapping  *Mapping
	function *sandbox.Function
	cfg      aws.Config
	table    sync.Locker // of the proxy
	log      *slog.Logger
	dead     func(ctx context.Context, arn string, body []byte)
}

// look is how often a shard without news is read; Lambda reads four times a second.
const look = 250 * time.Millisecond

type record = map[string]any

func (f *streamFeed) run(ctx context.Context) {
	after := "" // sequence number of the last record
	for ctx.Err() == nil {
		records, err := f.read(ctx, after)
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
		if d, ok := records[len(records)-1]["dynamodb"].(map[string]any); ok {
			after = fmt.Sprint(d["SequenceNumber"])
		}
		f.deliver(ctx, f.filter(records))
	}
}

// read returns the records after one. Every time with a new iterator: moto's ends, without saying so, with the next
// transaction that is cancelled, since it then puts a copy of the table in its place.
func (f *streamFeed) read(ctx context.Context, after string) ([]record, error) {
	iterator, err := f.iterator(ctx, after)
	if err != nil {
		return nil, err
	}
	var out struct{ Records []record }
	err = f.call(ctx, "GetRecords", map[string]any{"ShardIterator": iterator, "Limit": 1000}, &out)
	return out.Records, err
}

// iterator is of the stream's only shard: after a record, or from its beginning.
func (f *streamFeed) iterator(ctx context.Context, after string) (string, error) {
	var stream struct {
		StreamDescription struct {
			Shards []struct {
				ShardID string `json:"ShardId"`
			}
		}
	}
	if err := f.call(ctx, "DescribeStream", map[string]any{"StreamArn": f.mapping.Source}, &stream); err != nil {
		return "", err
	}
	if n := len(stream.StreamDescription.Shards); n != 1 {
		return "", fmt.Errorf("rehearsal: the stream has %d shards", n)
	}
	var it struct{ ShardIterator string }
	in := map[string]any{
		"StreamArn": f.mapping.Source, "ShardId": stream.StreamDescription.Shards[0].ShardID,
		"ShardIteratorType": "TRIM_HORIZON",
	}
	if after != "" {
		in["ShardIteratorType"], in["SequenceNumber"] = "AFTER_SEQUENCE_NUMBER", after
	}
	err := f.call(ctx, "GetShardIterator", in, &it)
	return it.ShardIterator, err
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

// deliver invokes the function on records, a batch at a time, in order.
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

// batch returns how many records from the front are done.
func (f *streamFeed) batch(ctx context.Context, records []record) int {
	payload, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		f.log.Error("stream", "err", err)
		return len(records)
	}
	answer, err := f.function.Invoke(context.WithoutCancel(ctx), payload)
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

// giveUp tells the on-failure destination where the records are, as Lambda does.
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

// call is one call of DynamoDB Streams. Its JSON is that which Lambda hands on, so it is not taken apart.
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
	f.table.Lock()
	defer f.table.Unlock()
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
