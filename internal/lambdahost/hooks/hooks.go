// Package hooks sends news to users: to an SNS topic, to a webhook, to the topic that a job names, and, for a rejected
// DAG file, to an error file next to it in the bucket.
package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/dagbucket"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/traces"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Publisher is the part of *sns.Client that Hook uses.
type Publisher interface {
	Publish(context.Context, *sns.PublishInput, ...func(*sns.Options)) (*sns.PublishOutput, error)
}

// Uploader is the part of *s3.Client that writes error files.
type Uploader interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// Hook implements broker.Hook.
type Hook struct {
	SNS     Publisher
	Topic   string // ARN; empty for none
	Webhook string // URL; empty for none
	HTTP    *http.Client
	S3      Uploader
	Bucket  string // of DAG files
	// Announcer publishes on the topics that jobs name; nil if the deployment has no cloud with topics.
	Announcer driver.Announcer
	// Traced sends a finished job to a collector; nil if the environment names none.
	Traced func(ctx context.Context, job string)
	// Far are buckets of other clouds whose files are jobs, by URL.
	Far map[string]driver.Files
	// Store remembers which recipients were notified when another failed; nil remembers nothing.
	Store store.Store
	Now   func() time.Time
}

// New makes the hook for the recipients that the environment names. buckets are those of other clouds whose files are
// jobs; topics publishes on the topics that jobs name, and may be nil; jobs loads a job for the collector.
func New(s *lambdahost.Sandbox, buckets map[string]driver.Files, topics driver.Announcer, jobs Jobs) *Hook {
	hook := &Hook{
		SNS: sns.NewFromConfig(s.AWS), Topic: s.Env.Topic, Webhook: s.Env.Webhook,
		HTTP: &http.Client{Timeout: webhookWithin}, S3: s.S3(), Bucket: s.Env.DAGBucket,
		Far: buckets, Announcer: topics, Store: s.Store, Now: s.Now,
	}
	if traces.Enabled() {
		t := &tracing{jobs: jobs, ssm: ssm.NewFromConfig(s.AWS), parameter: s.Env.TraceHeaders, log: s.Log}
		hook.Traced = t.finished
	}
	return hook
}

const webhookWithin = 10 * time.Second

// The recipients.
const (
	toTopic   = "topic"
	toWebhook = "webhook"
	toJob     = "job" // the topic that the job names
)

// Notify implements broker.Hook. If a recipient failed, it is called again, and then notifies only the recipients that
// failed: a webhook that is down for an hour is tried twenty times, but an e-mail must be sent once.
func (k *Hook) Notify(ctx context.Context, e events.Event) error {
	body, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	if d, ok := e.Data.(events.DAGFinished); ok && k.Traced != nil {
		k.Traced(ctx, d.Job)
	}
	var errs []error
	if r, ok := e.Data.(events.DAGRejected); ok && r.Bucket == k.Bucket {
		errs = append(errs, k.remark(ctx, r))
	} else if ok {
		_, err := dagbucket.Buckets{Files: k.Far}.Rejected(ctx, r)
		errs = append(errs, err)
	}
	d, _ := e.Data.(events.DAGFinished)
	if k.Topic == "" && k.Webhook == "" && d.Announce == "" {
		return errors.Join(errs...)
	}
	was, err := k.notified(ctx, e.ID)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	var now []string
	tell := func(whom string, err error) {
		if err == nil {
			now = append(now, whom)
		}
		errs = append(errs, err)
	}
	if k.Topic != "" && !was[toTopic] {
		tell(toTopic, k.publish(ctx, e, body))
	}
	if k.Webhook != "" && !was[toWebhook] {
		tell(toWebhook, k.post(ctx, body))
	}
	if d.Announce != "" && !was[toJob] {
		tell(toJob, driver.AnnounceFinished(ctx, k.Announcer, e, d))
	}
	err = errors.Join(errs...)
	if err != nil && len(now) > 0 {
		err = errors.Join(err, k.recordNotified(ctx, e.ID, now))
	}
	return err
}

// toldKey is the key of the record that a recipient was notified of an event.
func toldKey(event, whom string) store.Key { return store.Key{Partition: "told#" + event, Sort: whom} }

// notified returns the recipients that were already notified of an event.
func (k *Hook) notified(ctx context.Context, event string) (map[string]bool, error) {
	if k.Store == nil {
		return nil, nil
	}
	records, err := k.Store.Get(ctx, toldKey(event, toTopic), toldKey(event, toWebhook), toldKey(event, toJob))
	if err != nil {
		return nil, fmt.Errorf("hooks: %w", err)
	}
	was := make(map[string]bool, len(records))
	for _, r := range records {
		was[r.Key.Sort] = true
	}
	return was, nil
}

// toldFor is longer than a queue keeps an event.
const toldFor = 15 * 24 * time.Hour

// recordNotified records the notified recipients.
func (k *Hook) recordNotified(ctx context.Context, event string, whom []string) error {
	if k.Store == nil {
		return nil
	}
	var tx store.Tx
	for _, one := range whom {
		tx.Writes = append(tx.Writes, store.Write{Op: store.Put, Key: toldKey(event, one), Expect: store.Any,
			Expires: k.Now().Add(toldFor)})
	}
	if err := k.Store.Commit(ctx, tx); err != nil {
		return fmt.Errorf("hooks: %w", err)
	}
	return nil
}

func (k *Hook) publish(ctx context.Context, e events.Event, body []byte) error {
	_, err := k.SNS.Publish(ctx, &sns.PublishInput{
		TopicArn: &k.Topic, Message: aws.String(string(body)), Subject: aws.String(subject(e)),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"type": {DataType: aws.String("String"), StringValue: aws.String(e.Type())},
		},
	})
	if err != nil {
		return fmt.Errorf("hooks: topic: %w", err)
	}
	return nil
}

// maxSubject is SNS's limit; it accepts only printable ASCII.
const maxSubject = 100

// subject returns the subject line of an e-mail.
func subject(e events.Event) string {
	s := "Tradewind: " + e.Type()
	switch d := e.Data.(type) {
	case events.DAGFinished:
		s = "Tradewind: " + d.Name + " " + d.Outcome
	case events.DAGRejected:
		s = "Tradewind: " + d.Key + " was rejected"
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), maxSubject)]
}

func (k *Hook) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.Webhook, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("hooks: webhook: %w", err)
	}
	req.Header.Set("Content-Type", "application/cloudevents+json")
	res, err := k.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("hooks: webhook: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // only its status matters
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if res.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("hooks: webhook: %s", res.Status)
	}
	return nil
}

// ErrorSuffix ends the name of an error file. Users see that file next to the rejected one; submit ignores it.
const ErrorSuffix = lambdahost.ErrorSuffix

func (k *Hook) remark(ctx context.Context, r events.DAGRejected) error {
	key := r.Key + ErrorSuffix
	_, err := k.S3.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &k.Bucket, Key: &key, Body: strings.NewReader(r.Reason + "\n"),
		ContentType: aws.String("text/plain; charset=utf-8"),
	})
	if err != nil {
		return fmt.Errorf("hooks: s3://%s/%s: %w", k.Bucket, key, err)
	}
	return nil
}
