package aws_test

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// raw returns a client of SQS that bypasses the bus, like Lambda's poller.
func (f *fixture) raw() (*sqs.Client, *string) {
	f.Helper()
	c := sqs.NewFromConfig(f.world.config(nil))
	out, err := c.GetQueueUrl(f.Context(), &sqs.GetQueueUrlInput{QueueName: sdk.String(f.config.QueuePrefix + "work")})
	if err != nil {
		f.Fatal(err)
	}
	return c, out.QueueUrl
}

// put sends a body to the work queue, like another service.
func (f *fixture) put(body string) {
	f.Helper()
	c, url := f.raw()
	_, err := c.SendMessage(f.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body})
	f.must(err)
}

// record receives one message, like Lambda's poller.
func (f *fixture) record() aws.Received {
	f.Helper()
	c, url := f.raw()
	out, err := c.ReceiveMessage(f.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: url, VisibilityTimeout: 3600, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"ApproximateReceiveCount"},
	})
	if err != nil || len(out.Messages) != 1 {
		f.Fatalf("%+v, %v", out, err)
	}
	m := out.Messages[0]
	n, err := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	f.must(err)
	return aws.Received{MessageID: *m.MessageId, ReceiptHandle: *m.ReceiptHandle, Body: *m.Body, Attempt: n}
}

func TestAdoptedDeliveryCanBeAnswered(t *testing.T) {
	f := start(t, nil)
	f.publish("test.work.v1", "a")
	d, ok, err := f.Adopt(t.Context(), "work", f.record())
	if err != nil || !ok || d.ID != "a" || d.Attempt != 1 || string(d.Body) != `{"id":"a"}` {
		t.Fatalf("%+v, %v, %v", d, ok, err)
	}
	f.must(f.Nack(t.Context(), "work", d.Receipt, "again"))
	f.world.advance(t, 9*time.Minute)
	f.take("work")
	f.world.advance(t, 61*time.Second)
	d, ok, err = f.Adopt(t.Context(), "work", f.record())
	if err != nil || !ok || d.Attempt != 2 {
		t.Fatalf("%+v, %v, %v", d, ok, err)
	}
	f.must(f.Reject(t.Context(), "work", d.Receipt, "rejected"))
	if l := f.letters("work", "a")[0]; l.Reason != "rejected" || l.Attempts != 2 || string(l.Body) != `{"id":"a"}` {
		t.Errorf("%+v", l)
	}
	if n, err := f.Depth(t.Context(), "work"); n != 0 || err != nil {
		t.Errorf("depth %d, %v", n, err)
	}
}

func TestAdoptPostponesEarlyMessage(t *testing.T) {
	f := start(t, nil)
	f.must(f.Publish(t.Context(), bus.Message{ID: "later", Type: "test.work.v1", NotBefore: f.world.Now().Add(20 * time.Minute)}))
	f.world.advance(t, 15*time.Minute+time.Second)
	if d, ok, err := f.Adopt(t.Context(), "work", f.record()); ok || err != nil {
		t.Fatalf("%+v, %v, %v", d, ok, err)
	}
	f.take("work")
	f.world.advance(t, 5*time.Minute)
	f.take("work", "later")
}

func TestUnreadableMessagesBecomeDeadLetters(t *testing.T) {
	f := start(t, nil)
	f.put("hello")
	f.take("work")
	letters, err := f.DeadLetters(t.Context(), "work", 10)
	if err != nil || len(letters) != 1 || string(letters[0].Body) != "hello" || letters[0].ID == "" || !strings.Contains(letters[0].Reason, "unreadable") {
		t.Fatalf("%+v, %v", letters, err)
	}
	if n, err := f.Redrive(t.Context(), "work", letters[0].ID); n != 1 || err != nil {
		t.Errorf("redriven %d, %v", n, err)
	}
}

func TestEventsOfAWSAreTranslated(t *testing.T) {
	body, err := os.ReadFile("testdata/bodies/ec2-interruption.json")
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("unknown event")
	f := start(t, func(c *aws.Config) {
		c.Translate = func(e aws.Foreign) (bus.Message, error) {
			if e.Source != "aws.ec2" {
				return bus.Message{}, refused
			}
			return bus.Message{ID: "notice-" + e.ID, Type: "test.work.v1", Body: e.Detail}, nil
		}
	})
	f.put(string(body))
	d := f.take("work", "notice-1e5527d7-bb36-4607-3370-4164db56a40e")[0]
	f.must(f.Ack(t.Context(), "work", d.Receipt))
	f.put(strings.Replace(string(body), "aws.ec2", "aws.s3", 1))
	f.take("work")
	if l := f.letters("work", "1e5527d7-bb36-4607-3370-4164db56a40e")[0]; !strings.Contains(l.Reason, refused.Error()) {
		t.Errorf("%+v", l)
	}
}

func TestLargePayloadIsSharedAndKeptUntilExpiry(t *testing.T) {
	f := start(t, nil)
	bucket := s3.NewFromConfig(f.world.config(nil), func(o *s3.Options) { o.UsePathStyle = true })
	large := bus.Message{ID: "large", Type: "test.both.v1", Body: []byte(`"` + strings.Repeat("x", bus.MaxMessageBytes-2) + `"`)}
	f.must(f.Publish(t.Context(), large, bus.Message{ID: "small", Type: "test.work.v1", Body: []byte(`{}`)}))
	objects := func() []string {
		out, err := bucket.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &f.config.Bucket})
		f.must(err)
		var keys []string
		for _, o := range out.Contents {
			keys = append(keys, *o.Key)
		}
		return keys
	}
	keys := objects()
	if len(keys) != 1 || !strings.HasPrefix(keys[0], aws.PayloadPrefix) {
		t.Fatalf("objects %q", keys)
	}
	d := f.take("work", "large", "small")
	if string(d[0].Body) != string(large.Body) {
		t.Errorf("a body of %d bytes", len(d[0].Body))
	}
	f.must(f.Ack(t.Context(), "work", d[0].Receipt))
	audit := f.take("audit", "large")[0]
	f.must(f.Reject(t.Context(), "audit", audit.Receipt, "x"))
	if l := f.letters("audit", "large")[0]; string(l.Body) != string(large.Body) {
		t.Errorf("a dead letter of %d bytes", len(l.Body))
	}
	_, err := bucket.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &f.config.Bucket, Key: &keys[0]})
	f.must(err)
	if l := f.letters("audit", "large")[0]; !strings.Contains(l.Reason, "is gone") || len(l.Body) > 0 {
		t.Errorf("%.300q with %d bytes", l.Reason, len(l.Body))
	}
	if n, err := f.Redrive(t.Context(), "audit"); n != 1 || err != nil {
		t.Errorf("redriven %d, %v", n, err)
	}
	f.take("audit") // an unreadable message becomes a dead letter at once
	f.letters("audit", "large")
}

func TestRedriveOfUndeliveredEventsUsesTargetQueue(t *testing.T) {
	body, err := os.ReadFile("testdata/bodies/s3-object-created.json")
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, nil)
	c, _ := f.raw()
	text := func(s string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: sdk.String("String"), StringValue: &s}
	}
	const id = "17793124-05d4-b198-2fde-7ededc63b103"
	// The queue "work" belongs to a function that EventBridge invokes itself.
	for of, queue := range map[string]string{"unrouted": "", "work": "work"} {
		url, err := c.GetQueueUrl(t.Context(),
			&sqs.GetQueueUrlInput{QueueName: sdk.String(f.config.QueuePrefix + of + "-dlq")})
		f.must(err)
		_, err = c.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: url.QueueUrl, MessageBody: sdk.String(string(body)),
			MessageAttributes: map[string]types.MessageAttributeValue{
				"ERROR_CODE": text("SQS_THROTTLED"), "ERROR_MESSAGE": text("too much"),
				"TARGET_ARN": text("arn:aws:sqs:us-east-1:123456789012:" + f.config.QueuePrefix + "work"),
			},
		})
		f.must(err)
		l := f.letters(queue, id)[0]
		if l.Reason != "EventBridge could not deliver it: SQS_THROTTLED too much" || l.At.IsZero() {
			t.Errorf("in the dead letters of %q: %+v", of, l)
		}
		if n, err := f.Redrive(t.Context(), queue, id); n != 1 || err != nil {
			t.Errorf("from the dead letters of %q: redriven %d, %v", of, n, err)
		}
		d := f.take("work", id)
		f.must(f.Ack(t.Context(), "work", d[0].Receipt))
	}
}

func TestLoadRejectsOtherBuckets(t *testing.T) {
	f := start(t, nil)
	body, err := json.Marshal(map[string]any{"source": aws.Source, "detail": aws.Detail{
		ID: "a", Type: "test.work.v1", Ref: &aws.Ref{Bucket: "another", Key: "secret", Bytes: 10},
	}})
	f.must(err)
	f.put(string(body))
	f.take("work")
	if l := f.letters("work", "a")[0]; !strings.Contains(l.Reason, `bucket "another"`) {
		t.Errorf("%+v", l)
	}
}

func TestOnlyAnnouncedTypesGoToEventBus(t *testing.T) {
	for _, news := range []bool{false, true} {
		counted := &counter{}
		f := start(t, func(c *aws.Config) {
			if news {
				c.Announce = []string{"test.news.v1"}
			}
			counted.EventBridge = c.EventBridge
			c.EventBridge = counted
		})
		f.publish("test.news.v1", "a")
		if (counted.entries > 0) != news {
			t.Errorf("announced %v, %d events were put", news, counted.entries)
		}
		f.letters("")
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	good := aws.Config{EventBus: "b", Bucket: "c", EventBridge: &counter{}, SQS: &sqs.Client{}, S3: &s3.Client{}, Queues: setup().Queues, Route: setup().Route}
	if _, err := aws.New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*aws.Config){
		"no bus":                      func(c *aws.Config) { c.EventBus = "" },
		"no bucket":                   func(c *aws.Config) { c.Bucket = "" },
		"no client":                   func(c *aws.Config) { c.SQS = nil },
		"reserved name":               func(c *aws.Config) { c.Queues = append(c.Queues[:2:2], bus.QueueConfig{Name: "unrouted"}) },
		"name of a dead-letter queue": func(c *aws.Config) { c.Queues = append(c.Queues[:2:2], bus.QueueConfig{Name: "work-dlq"}) },
		"invalid queue":               func(c *aws.Config) { c.Queues = append(c.Queues[:2:2], bus.QueueConfig{Name: "x"}) },
	} {
		c := good
		change(&c)
		if _, err := aws.New(c); !errors.Is(err, bus.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
