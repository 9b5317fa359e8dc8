package account

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// queueFeed polls a queue for a function, as Lambda does (AWS Lambda developer guide, "Using Lambda with Amazon SQS"):
// a batch is one invocation. Messages that the answer does not list as failed are deleted. Failed messages, and a whole
// batch whose invocation failed, become visible again after their time-out.
type queueFeed struct {
	mapping  *Mapping
	function *sandbox.Function
	sqs      *sqs.Client
	url      string
	dead     string // URL of its dead-letter queue; empty if it has none
	count    *Counter
	log      *slog.Logger
}

// pollWait is the maximum time of an empty poll. Lambda's polls wait 20 s, but the emulator cannot handle that many
// open requests.
const pollWait = 2 * time.Second

func (f *queueFeed) run(ctx context.Context) {
	slots := make(chan struct{}, max(f.mapping.Parallel, 1))
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		on, changed := f.mapping.Enabled()
		if !on {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		messages := f.receive(ctx)
		if len(messages) == 0 {
			<-slots
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			f.deliver(context.WithoutCancel(ctx), messages)
		})
	}
}

// receive receives up to a batch. SQS returns at most ten messages at a time.
func (f *queueFeed) receive(ctx context.Context) []types.Message {
	var all []types.Message
	wait := pollWait
	for len(all) < f.mapping.Batch {
		out, err := f.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &f.url, MaxNumberOfMessages: int32(min(f.mapping.Batch-len(all), 10)), WaitTimeSeconds: int32(wait.Seconds()), //nolint:gosec // small
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
			MessageAttributeNames:       []string{"All"},
		})
		if err != nil {
			if ctx.Err() == nil {
				f.log.Warn("poll", "queue", f.url, "err", err)
				_ = clock.Pause(ctx, time.Second)
			}
			break
		}
		if len(out.Messages) == 0 {
			break
		}
		f.count.add("sqs", "ReceiveMessage", f.mapping.Function)
		for _, m := range out.Messages {
			// a first delivery: the sender needed a request as well
			if m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)] == "1" {
				f.count.add("sqs", "(sent to it)", f.mapping.Function)
			}
		}
		all = append(all, out.Messages...)
		wait = 0
	}
	return all
}

// sqsRecord is a message as Lambda passes it to a function.
type sqsRecord struct {
	MessageID         string               `json:"messageId"`
	ReceiptHandle     string               `json:"receiptHandle"`
	Body              string               `json:"body"`
	MD5               string               `json:"md5OfBody"`
	Attributes        map[string]string    `json:"attributes"`
	MessageAttributes map[string]attribute `json:"messageAttributes"`
	EventSource       string               `json:"eventSource"`
	EventSourceARN    string               `json:"eventSourceARN"`
	Region            string               `json:"awsRegion"`
}

type attribute struct {
	StringValue *string `json:"stringValue,omitempty"`
	BinaryValue []byte  `json:"binaryValue,omitempty"`
	DataType    string  `json:"dataType"`
}

func (f *queueFeed) deliver(ctx context.Context, messages []types.Message) {
	messages = f.dropLoops(ctx, messages)
	if len(messages) == 0 {
		return
	}
	records, causes := make([]sqsRecord, len(messages)), make([]string, len(messages))
	for i, m := range messages {
		records[i] = sqsRecord{
			MessageID: aws.ToString(m.MessageId), ReceiptHandle: aws.ToString(m.ReceiptHandle),
			Body: aws.ToString(m.Body), MD5: aws.ToString(m.MD5OfBody), Attributes: m.Attributes,
			MessageAttributes: map[string]attribute{}, EventSource: "aws:sqs", EventSourceARN: f.mapping.Source,
			Region: Region,
		}
		causes[i] = cause(m)
		for k, v := range m.MessageAttributes {
			if k == traceAttribute {
				continue
			}
			records[i].MessageAttributes[k] = attribute{StringValue: v.StringValue, BinaryValue: v.BinaryValue,
				DataType: aws.ToString(v.DataType)}
		}
	}
	payload, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		f.log.Error("feed", "err", err)
		return
	}
	answer, err := f.function.Invoke(ctx, payload, causes...)
	if err != nil {
		f.log.Info("invocation failed", "function", f.mapping.Function, "messages", len(messages), "err", err)
		return
	}
	failed, err := failures(answer)
	if err != nil {
		f.log.Warn("answer", "function", f.mapping.Function, "err", err)
		return
	}
	if !f.mapping.Partial {
		failed = nil // Lambda ignores them
	}
	f.remove(ctx, messages, failed)
}

// failures returns which items of a batch failed. As in Lambda, an invalid answer fails them all.
func failures(answer []byte) (map[string]bool, error) {
	var out struct {
		Failures []struct {
			ID *string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	if len(answer) == 0 || string(answer) == "null" {
		return nil, nil
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, fmt.Errorf("%w: %.200q", err, answer)
	}
	failed := map[string]bool{}
	for _, f := range out.Failures {
		if f.ID == nil || *f.ID == "" {
			return nil, fmt.Errorf("a failure without an identifier: %.200q", answer)
		}
		failed[*f.ID] = true
	}
	return failed, nil
}

func (f *queueFeed) remove(ctx context.Context, messages []types.Message, failed map[string]bool) {
	var entries []types.DeleteMessageBatchRequestEntry
	for i, m := range messages {
		if !failed[aws.ToString(m.MessageId)] {
			entries = append(entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)),
				ReceiptHandle: m.ReceiptHandle})
		}
	}
	for len(entries) > 0 {
		n := min(len(entries), 10)
		f.count.add("sqs", "DeleteMessageBatch", f.mapping.Function)
		if _, err := f.sqs.DeleteMessageBatch(ctx,
			&sqs.DeleteMessageBatchInput{QueueUrl: &f.url, Entries: entries[:n]}); err != nil {
			f.log.Warn("delete", "queue", f.url, "err", err)
		}
		entries = entries[n:]
	}
}

// queueName returns the queue's name from its ARN.
func queueName(arn string) string { return arn[strings.LastIndex(arn, ":")+1:] }
