package s3grant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/aws/smithy-go"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Loans is how a Store lends credentials: by AWS STS, under a session policy that allows one prefix.
type Loans struct {
	STS *sts.Client // nil lends nothing
	// Role is the ARN of the role that is assumed. What is lent may do what both the role and the policy allow. Empty
	// asks for a federation token, which takes the long-lived keys of a user.
	Role string
}

// What STS gives: AssumeRole and GetFederationToken no less than 15 minutes, a role that another role assumes no more
// than an hour (AWS Security Token Service API reference).
const (
	shortestLoan = 15 * time.Minute
	longestLoan  = time.Hour
)

// session names what is lent in the logs of the account.
const session = "tradewind-mount"

// Lend implements grant.Lender.
func (s *Store) Lend(ctx context.Context, l grant.Loan) (grant.Credentials, error) {
	o, err := grant.ParsePrefixOf(scheme, l.Prefix)
	if err != nil {
		return grant.Credentials{}, err
	}
	if s.loans.STS == nil {
		return grant.Credentials{}, fmt.Errorf("s3grant: no role is known that could be lent for %s: %w", o,
			errors.ErrUnsupported)
	}
	opts := s.client.Options()
	policy := aws.String(policyFor(o, l.Write, partition(opts.Region)))
	seconds := aws.Int32(int32(min(max(l.For, shortestLoan), longestLoan) / time.Second)) //nolint:gosec // an hour
	lent, err := s.ask(ctx, policy, seconds)
	if err != nil {
		return grant.Credentials{}, lendError(o, err)
	}
	return grant.Credentials{
		Expires: aws.ToTime(lent.Expiration), AccessKey: aws.ToString(lent.AccessKeyId),
		SecretKey: aws.ToString(lent.SecretAccessKey), SessionToken: aws.ToString(lent.SessionToken),
		Region: opts.Region, Endpoint: aws.ToString(opts.BaseEndpoint), PathStyle: opts.UsePathStyle,
	}, nil
}

func (s *Store) ask(ctx context.Context, policy *string, seconds *int32) (*types.Credentials, error) {
	if s.loans.Role == "" {
		out, err := s.loans.STS.GetFederationToken(ctx, &sts.GetFederationTokenInput{
			Name: aws.String(session), Policy: policy, DurationSeconds: seconds,
		})
		if err != nil {
			return nil, err
		}
		return out.Credentials, nil
	}
	out, err := s.loans.STS.AssumeRole(ctx, &sts.AssumeRoleInput{
		RoleArn: aws.String(s.loans.Role), RoleSessionName: aws.String(session), Policy: policy,
		DurationSeconds: seconds,
	})
	if err != nil {
		return nil, err
	}
	return out.Credentials, nil
}

func lendError(o grant.Object, err error) error {
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "PackedPolicyTooLarge", "MalformedPolicyDocument":
			return fmt.Errorf("s3grant: credentials cannot be bounded to %s: %s: %w", o, api.ErrorMessage(),
				grant.ErrURI)
		}
		return fmt.Errorf("s3grant: %w to lend for %s: %s: %s", grant.ErrCredentials, o, api.ErrorCode(),
			api.ErrorMessage())
	}
	return fmt.Errorf("s3grant: lend for %s: %w", o, grant.Redact(err))
}

// statement is one of an IAM policy.
type statement struct {
	Effect    string                         `json:"Effect"`
	Action    []string                       `json:"Action"`
	Resource  string                         `json:"Resource"`
	Condition map[string]map[string][]string `json:"Condition,omitempty"`
}

// policyFor allows what lies below a prefix. It has no spaces: STS counts characters.
func policyFor(o grant.Object, write bool, partition string) string {
	bucket := "arn:" + partition + ":s3:::" + o.Bucket
	actions := []string{"s3:GetObject"}
	if write {
		actions = append(actions, "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload",
			"s3:ListMultipartUploadParts")
	}
	list := statement{Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: bucket}
	if o.Key != "" {
		list.Condition = map[string]map[string][]string{"StringLike": {"s3:prefix": {literal(o.Key) + "*"}}}
	}
	body, err := json.Marshal(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", []statement{
		list, {Effect: "Allow", Action: actions, Resource: bucket + "/" + literal(o.Key) + "*"},
	}})
	if err != nil {
		panic(err) // of strings
	}
	return string(body)
}

// literal is a key in a pattern of IAM, in which some characters stand for others.
func literal(key string) string {
	return strings.NewReplacer("*", "${*}", "?", "${?}", "$", "${$}").Replace(key)
}

// partition is the part of AWS that a region is in, as ARNs name it.
func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// Lend implements grant.Lender, in the region of the bucket.
func (a *Anywhere) Lend(ctx context.Context, l grant.Loan) (grant.Credentials, error) {
	return a.find(ctx, l.Prefix).Lend(ctx, l)
}
