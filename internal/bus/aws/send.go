package aws

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// maxDelay is the longest delay that SQS supports.
const maxDelay = 15 * time.Minute

// Attributes of a dead letter that the driver sends.
const (
	attrReason   = "tradewind.reason"
	attrAttempts = "tradewind.attempts"
	attrAt       = "tradewind.at"
)

// send is a message to put into a queue directly.
type send struct {
	body   string
	delay  time.Duration
	letter *letter // set for a dead-letter queue
}

// letter describes why and when a message became a dead letter.
type letter struct {
	reason   string
	attempts int
	at       time.Time
}

func (l *letter) attributes() map[string]types.MessageAttributeValue {
	if l == nil {
		return nil
	}
	text := func(kind, value string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: &kind, StringValue: &value}
	}
	out := map[string]types.MessageAttributeValue{
		attrAttempts: text("Number", strconv.Itoa(l.attempts)),
		attrAt:       text("String", l.at.UTC().Format(time.RFC3339Nano)),
	}
	if reason := cleanText(bus.TrimReason(l.reason)); reason != "" { // SQS rejects empty values
		out[attrReason] = text("String", reason)
	}
	return out
}

// cleanText replaces the characters that SQS does not allow.
func cleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\ufffe' || r == '\uffff' {
			return '\ufffd'
		}
		return r
	}, s)
}

// letterOf reads the attributes of a letter. It returns nil if SQS itself moved the letter.
func letterOf(m *types.Message) *letter {
	at, ok := m.MessageAttributes[attrAt]
	if !ok {
		return nil
	}
	l := &letter{reason: deref(m.MessageAttributes[attrReason].StringValue)}
	l.at, _ = time.Parse(time.RFC3339Nano, deref(at.StringValue))
	l.attempts, _ = strconv.Atoi(deref(m.MessageAttributes[attrAttempts].StringValue))
	return l
}

func sendSize(s send) int {
	n := len(s.body)
	for name, v := range s.letter.attributes() {
		n += len(name) + len(*v.DataType) + len(deref(v.StringValue))
	}
	return n
}

// send puts messages into a queue, given by its SQS name. It retries only the entries of a call that failed.
func (b *Bus) send(ctx context.Context, name string, list []send) error {
	url, err := b.url(ctx, name)
	if err != nil {
		return err
	}
	for batch := range batches(list, sendSize) {
		entries := make([]types.SendMessageBatchRequestEntry, len(batch))
		for i := range batch {
			s := &batch[i]
			id := strconv.Itoa(i)
			entries[i] = types.SendMessageBatchRequestEntry{
				Id: &id, MessageBody: &s.body, DelaySeconds: seconds(s.delay, maxDelay),
				MessageAttributes: s.letter.attributes(),
			}
		}
		err := b.retry(ctx, func() (bool, error) {
			out, err := b.cfg.SQS.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: url, Entries: entries})
			if err != nil {
				return true, err
			}
			entries, err = failedBatchEntries(entries, func(e types.SendMessageBatchRequestEntry) string {
				return *e.Id
			}, out.Failed, nil)
			return len(entries) == 0, err
		})
		if err != nil {
			return fmt.Errorf("send to %s: %w", name, err)
		}
	}
	return nil
}

// failedBatchEntries returns the entries of a batch call to retry, and the error of one of them. It first passes each
// failure to handled, which returns true if it has dealt with it. Any other failure that is the sender's fault is
// permanent.
func failedBatchEntries[E any](entries []E, id func(E) string, answers []types.BatchResultErrorEntry,
	handled func(E, *entryError) bool) ([]E, error) {
	if len(answers) == 0 {
		return nil, nil
	}
	byID := make(map[string]*entryError, len(answers))
	for _, a := range answers {
		e := &entryError{code: deref(a.Code), message: deref(a.Message)}
		byID[deref(a.Id)] = e
	}
	var again []E
	var last error
	for _, entry := range entries {
		e, bad := byID[id(entry)]
		if !bad || handled != nil && handled(entry, e) {
			continue
		}
		again, last = append(again, entry), e
	}
	for _, a := range answers {
		e := byID[deref(a.Id)]
		if last != nil && a.SenderFault && !temporary(e.code) && !stale(e.code, e.message) {
			return nil, &finalError{e}
		}
	}
	return again, last
}

// stale reports whether an error means that SQS does not accept a receipt, or no longer does. SQS also uses the code
// InvalidParameterValue for other parameters, so stale checks the message for it.
func stale(code, message string) bool {
	switch strings.TrimPrefix(code, "AWS.SimpleQueueService.") {
	case "ReceiptHandleIsInvalid", "MessageNotInflight":
		return true
	case "InvalidParameterValue", "InvalidParameterValueException":
		return strings.Contains(message, "ReceiptHandle")
	}
	return false
}
