package lambdahost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/events"
	busaws "github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
)

// Events of AWS from EventBridge (Amazon S3 and Amazon EC2 user guides, "EventBridge events").
const (
	sourceS3  = "aws.s3"
	sourceEC2 = "aws.ec2"

	typeObjectCreated = "Object Created"
)

// ErrorSuffix ends the name of the error file of a rejected DAG file. Such a file is not a DAG file.
const ErrorSuffix = push.ErrorSuffix

// foreign converts an AWS event to one of ours. Its ID is derived from that of AWS, so that a repeated event changes
// nothing.
func (d Decoder) foreign(ctx context.Context, env busaws.Foreign) (e events.Event, ok bool, err error) {
	var data events.Data
	switch {
	case env.ID == "":
		err = errors.New("no id")
	case env.Source == sourceS3 && env.DetailType == typeObjectCreated:
		data, err = objectCreated(env.Detail)
	case env.Source == sourceEC2:
		return d.machine(ctx, env)
	default:
		err = fmt.Errorf("%q of %q", env.DetailType, env.Source)
	}
	if err != nil {
		return e, false, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if data == nil {
		return e, false, nil
	}
	return events.New("aws-"+env.ID, env.Source, env.Time.UTC(), data), true, nil
}

// objectCreated reads the detail of a new object. It returns nil if the name shows that it cannot be a job.
func objectCreated(raw json.RawMessage) (events.Data, error) {
	var in struct {
		Bucket struct {
			Name string `json:"name"`
		} `json:"bucket"`
		Object struct {
			Key  string `json:"key"`
			Size int64  `json:"size"`
			ETag string `json:"etag"`
		} `json:"object"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	if in.Bucket.Name == "" || in.Object.Key == "" {
		return nil, errors.New("detail of an object without bucket or key")
	}
	if !push.MayBeJob(in.Object.Key) {
		return nil, nil //nolint:nilnil // irrelevant
	}
	return events.ObjectCreated{Bucket: in.Bucket.Name, Key: in.Object.Key, ETag: strings.Trim(in.Object.ETag, `"`),
		Size: in.Object.Size}, nil
}

// machine converts an EC2 warning to a notice for the machine's cluster.
func (d Decoder) machine(ctx context.Context, env busaws.Foreign) (e events.Event, ok bool, err error) {
	if d.Notices == nil {
		return e, false, fmt.Errorf("%w: this function does not handle %q", ErrEnvelope, env.DetailType)
	}
	notice, ours, err := d.Notices.Notice(ctx, env.Raw)
	if err != nil || !ours {
		return e, false, err
	}
	return events.New("aws-"+env.ID, env.Source, env.Time.UTC(), notice), true, nil
}
