package account

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// traceHeader is the header in which the SDK sends the chain of requests that an invocation belongs to.
const traceHeader = "X-Amzn-Trace-Id"

// traceAttribute keeps the header with a message, because moto ignores the system attribute AWSTraceHeader in batches.
const traceAttribute = "rehearsal.trace"

// traced adds the tracing header of a function's request to the messages that it sends.
func traced(action, header string, body []byte) []byte {
	if header == "" || !strings.HasPrefix(action, "SendMessage") {
		return body
	}
	var in map[string]any
	if json.Unmarshal(body, &in) != nil {
		return body
	}
	messages, _ := in["Entries"].([]any)
	if action == "SendMessage" {
		messages = []any{in}
	}
	for _, m := range messages {
		m, ok := m.(map[string]any)
		if !ok {
			return body
		}
		attributes, _ := m["MessageAttributes"].(map[string]any)
		if attributes == nil {
			attributes = map[string]any{}
		}
		attributes[traceAttribute] = map[string]any{"DataType": "String", "StringValue": header}
		m["MessageAttributes"] = attributes
	}
	out, err := json.Marshal(in)
	if err != nil {
		return body
	}
	return out
}

// cause returns the tracing header of the request that sent a message.
func cause(m types.Message) string {
	return aws.ToString(m.MessageAttributes[traceAttribute].StringValue)
}

// deadQueue returns the URL of the dead-letter queue of a queue.
func (w *World) deadQueue(arn string) string {
	for _, q := range w.Template.Of("AWS::SQS::Queue") {
		if q.Text("QueueName") == queueName(arn) {
			if dead := q.Text("RedrivePolicy", "deadLetterTargetArn"); dead != "" {
				return w.QueueURL(queueName(dead))
			}
		}
	}
	return ""
}

// dropLoops moves the messages for which Lambda drops the invocation to the dead-letter queue, and returns the others.
func (f *queueFeed) dropLoops(ctx context.Context, messages []types.Message) []types.Message {
	var kept, dropped []types.Message
	for _, m := range messages {
		if !f.function.Recursive(cause(m)) {
			kept = append(kept, m)
			continue
		}
		f.log.Warn("a recursive invocation was dropped", "function", f.mapping.Function)
		dropped = append(dropped, m)
		if f.dead == "" {
			continue
		}
		if _, err := f.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &f.dead, MessageBody: m.Body}); err != nil {
			f.log.Warn("dead-letter queue", "err", err)
		}
	}
	if len(dropped) > 0 {
		f.remove(ctx, dropped, nil)
	}
	return kept
}
