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

// Loans configures how a Store lends credentials: with AWS STS and a session policy that allows one prefix.
type Loans struct {
	STS *sts.Client // nil: Lend fails
	// Role is the ARN of the role to assume. Lent credentials have only the rights that both the role and the policy
	// allow. If it is empty, Lend requests a federation token, which needs the long-lived keys of a user.
	Role string
}

// Limits of STS: AssumeRole and GetFederationToken give at least 15 minutes, and a role that another role assumes at
// most an hour (AWS Security Token Service API reference).
const (
	shortestLoan = 15 * time.Minute
	longestLoan  = time.Hour
)

// session is the name of lent credentials in the account's logs.
const session = "tradewind-mount"

// Lend implements grant.Lender.
func (s *Store) Lend(ctx context.Context, l grant.Loan) (grant.Credentials, error) {
	o, err := grant.ParsePrefixOf(scheme, l.Prefix)
	if err != nil {
		return grant.Credentials{}, err
	}
	if s.loans.STS == nil {
		return grant.Credentials{}, fmt.Errorf("s3grant: lending is not configured, so no credentials for %s: %w", o,
			errors.ErrUnsupported)
	}
	opts := s.client.Options()
	policy := aws.String(policyFor(o, l.Write, partition(opts.Region), opts.BaseEndpoint == nil))
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
			return fmt.Errorf("s3grant: credentials cannot be limited to %s: %s: %w", o, api.ErrorMessage(),
				grant.ErrURI)
		}
		return fmt.Errorf("s3grant: %w to lend for %s: %s: %s", grant.ErrCredentials, o, api.ErrorCode(),
			api.ErrorMessage())
	}
	return fmt.Errorf("s3grant: lend for %s: %w", o, grant.Redact(err))
}

// statement is a statement of an IAM policy.
type statement struct {
	Effect    string                         `json:"Effect"`
	Action    []string                       `json:"Action"`
	Resource  string                         `json:"Resource"`
	Condition map[string]map[string][]string `json:"Condition,omitempty"`
}

// policyFor returns a policy that allows access below a prefix, and with encrypted also the use of KMS keys through S3;
// servers other than AWS do not know these. It has no spaces: STS counts characters.
func policyFor(o grant.Object, write bool, partition string, encrypted bool) string {
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
	all := []statement{list, {Effect: "Allow", Action: actions, Resource: bucket + "/" + literal(o.Key) + "*"}}
	if encrypted {
		all = append(all, keys(write))
	}
	body, err := json.Marshal(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", all})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(body)
}

// keys allows S3 to use the KMS keys of encrypted buckets for the borrower, as far as the role may (S3 User Guide,
// "Using server-side encryption with AWS KMS keys": an upload in parts also needs Decrypt).
func keys(write bool) statement {
	s := statement{Effect: "Allow", Action: []string{"kms:Decrypt"}, Resource: "*",
		Condition: map[string]map[string][]string{"StringLike": {"kms:ViaService": {"s3.*"}}}}
	if write {
		s.Action = append(s.Action, "kms:GenerateDataKey")
	}
	return s
}

// literal escapes the wildcard characters of IAM patterns in a key.
func literal(key string) string {
	return strings.NewReplacer("*", "${*}", "?", "${?}", "$", "${$}").Replace(key)
}

// partition returns the AWS partition of a region, as used in ARNs.
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
func (a *AnyRegion) Lend(ctx context.Context, l grant.Loan) (grant.Credentials, error) {
	return a.find(ctx, l.Prefix).Lend(ctx, l)
}
