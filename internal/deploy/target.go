package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Target is an AWS account and region in which to deploy.
type Target struct {
	Account, Region string
	// Progress is called for each step, in order; may be nil.
	Progress func(Step)
	// Look is the interval at which a changing stack is polled; 0 means 2 s.
	Look time.Duration

	cfg aws.Config
	cfn *cloudformation.Client
	s3  *s3.Client
}

// Step is a step of a deployment, for display.
type Step struct {
	At       time.Time `json:"at"`
	What     string    `json:"what"`               // "upload", "resource", "stack"
	Name     string    `json:"name"`               // of the file or resource
	Type     string    `json:"type,omitempty"`     // of the resource
	Status   string    `json:"status"`             // CloudFormation's, or done
	Reason   string    `json:"reason,omitempty"`   // if it failed
	Physical string    `json:"physical,omitempty"` // its name in the account
}

// Errors of Open.
var (
	ErrNoCredentials = errors.New("deploy: no AWS credentials")
	ErrNoRegion      = errors.New("deploy: no AWS region")
)

// Open finds the account of cfg's credentials. It returns ErrNoCredentials or ErrNoRegion if they are missing.
func Open(ctx context.Context, cfg aws.Config) (*Target, error) {
	if cfg.Region == "" {
		return nil, ErrNoRegion
	}
	if cfg.Credentials == nil {
		return nil, ErrNoCredentials
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCredentials, err)
	}
	who, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return nil, fmt.Errorf("deploy: identity of the credentials: %w", err)
	}
	return &Target{Account: aws.ToString(who.Account), Region: cfg.Region, cfg: cfg,
		cfn: cloudformation.NewFromConfig(cfg), s3: newS3(cfg)}, nil
}

// newS3 addresses buckets by path for emulators, which do not have a host per bucket.
func newS3(cfg aws.Config) *s3.Client {
	return s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = cfg.BaseEndpoint != nil })
}

// In returns the target in another region of the account.
func (t *Target) In(region string) *Target {
	if region == "" || region == t.Region {
		return t
	}
	cfg := t.cfg.Copy()
	cfg.Region = region
	other := *t
	other.Region, other.cfg, other.cfn, other.s3 = region, cfg, cloudformation.NewFromConfig(cfg), newS3(cfg)
	return &other
}

// resolve replaces the placeholders of account, region and partition.
func (t *Target) resolve(s string) string {
	return strings.NewReplacer("${AWS::AccountId}", t.Account, "${AWS::Region}", t.Region, "${AWS::Partition}",
		"aws").Replace(s)
}

func (t *Target) report(s Step) {
	if t.Progress == nil {
		return
	}
	if s.At.IsZero() {
		s.At = time.Now()
	}
	t.Progress(s)
}

func (t *Target) look() time.Duration {
	if t.Look > 0 {
		return t.Look
	}
	return 2 * time.Second
}
