package lambdahost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// PolicyClient is the part of *s3.Client that this package uses.
type PolicyClient interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
}

const (
	// every is how often a working sandbox checks whether the object has changed.
	every = time.Minute
	// within limits the time for one check, so as not to delay a session.
	within = 2 * time.Second
	// most is more than the maximum size of a policy.
	most = 1 << 20
)

// PolicyObject is a scheduling policy in a bucket, which is checked for changes while a function runs. Its method
// Policy is a broker.Ports.Policy.
type PolicyObject struct {
	Client      PolicyClient
	Bucket, Key string
	Now         func() time.Time
	Log         *slog.Logger

	mu     sync.Mutex
	holder scheduler.Holder
	loaded bool // a valid policy was loaded
	looked time.Time
	tag    string // of the object read last, valid or not
}

// FollowPolicy returns a broker.Ports.Policy: the deployment's policy, or nil if it has none.
func FollowPolicy(s *Sandbox) func(context.Context) *scheduler.Policy {
	if s.Env.Policy == "" {
		return nil
	}
	o := &PolicyObject{Client: s.S3(), Bucket: s.Env.WorkBucket, Key: s.Env.Policy, Now: s.Now, Log: s.Log}
	return o.Policy
}

// Policy returns the policy in force, and checks the object once a minute. It is nil, the broker's default, until a
// policy could be read; quotas and gangs apply under any policy.
func (o *PolicyObject) Policy(ctx context.Context) *scheduler.Policy {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.Now(); o.looked.IsZero() || now.Sub(o.looked) >= every {
		o.looked = now
		if err := o.reload(ctx); err != nil {
			o.Log.ErrorContext(ctx, "the new policy is invalid; the previous one stays in force", "err", err)
		}
	}
	if !o.loaded {
		return nil
	}
	return o.holder.Policy()
}

// reload loads the object if it has changed.
func (o *PolicyObject) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	in := &s3.GetObjectInput{Bucket: &o.Bucket, Key: &o.Key}
	if o.tag != "" {
		in.IfNoneMatch = &o.tag
	}
	out, err := o.Client.GetObject(ctx, in)
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusNotModified {
		return nil
	}
	name := "s3://" + o.Bucket + "/" + o.Key
	if err != nil {
		return fmt.Errorf("policy: %s: %w", name, err)
	}
	defer out.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(out.Body, most))
	if err != nil {
		return fmt.Errorf("policy: %s: %w", name, err)
	}
	if out.ETag != nil {
		if o.tag == *out.ETag {
			return nil
		}
		o.tag = *out.ETag
	}
	o.holder.Check = session.CheckPolicy
	if err := o.holder.Reload(name, body); err != nil {
		return err
	}
	o.loaded = true
	o.Log.InfoContext(ctx, "the new policy is in force", "object", name)
	return nil
}
