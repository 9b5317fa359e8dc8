package s3grant_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/granttest"
)

// holder accesses S3 with certain credentials.
type holder struct{ client *s3.Client }

func split(uri string) (bucket, key *string) {
	b, k, _ := strings.Cut(strings.TrimPrefix(uri, "s3://"), "/")
	return &b, &k
}

func (h holder) Read(ctx context.Context, uri string) ([]byte, error) {
	bucket, key := split(uri)
	out, err := h.client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: key})
	if err != nil {
		return nil, err
	}
	defer out.Body.Close() //nolint:errcheck // read
	return io.ReadAll(out.Body)
}

func (h holder) Write(ctx context.Context, uri string, body []byte) error {
	bucket, key := split(uri)
	_, err := h.client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: bytes.NewReader(body)})
	return err
}

func (h holder) List(ctx context.Context, prefix string) error {
	bucket, key := split(prefix)
	_, err := h.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket, Prefix: key})
	return err
}

func (h holder) Remove(ctx context.Context, uri string) error {
	bucket, key := split(uri)
	_, err := h.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key})
	return err
}

// The suite runs on MinIO, which checks session policies. Its AssumeRole accepts any ARN and lends the user's own
// rights.
func TestLoanConformance(t *testing.T) {
	granttest.RunLoans(t, func(t *testing.T) granttest.LoanHarness {
		endpoint := servers.S3(t)
		owner := credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, "")
		c := client(endpoint, owner, nil)
		for _, bucket := range []string{"lent", "others"} {
			if _, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
				t.Fatal(err)
			}
		}
		return granttest.LoanHarness{
			Lender: s3grant.New(c, s3grant.Options{Loans: s3grant.Loans{
				STS:  sts.New(sts.Options{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: owner}),
				Role: "arn:aws:iam::111122223333:role/mounts",
			}}),
			Owner: holder{c},
			Hold: func(_ *testing.T, lent grant.Credentials) granttest.Holder {
				return holder{client(lent.Endpoint,
					credentials.NewStaticCredentialsProvider(lent.AccessKey, lent.SecretKey, lent.SessionToken), nil)}
			},
			Escapes: "MinIO does not support IAM's escape of a star: ${*}",
			Bucket:  "s3://lent", Other: "s3://others",
			Prefix: func(name string) (lent, beside string) {
				return "s3://lent/" + name + "/", "s3://lent/" + name + "-beside/"
			},
		}
	})
}

// A session policy limits lent credentials. So it must allow the use of the keys of encrypted buckets, too; the role
// limits which keys these are (S3 User Guide, "Using server-side encryption with AWS KMS keys (SSE-KMS)",
// "Permissions").
func TestLentCredentialsMayUseKeysOfBuckets(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.FormValue("Policy")
		_, _ = fmt.Fprint(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>`+
			`<AccessKeyId>a</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>`+
			`<Expiration>2030-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`)
	}))
	t.Cleanup(server.Close)
	owner := credentials.NewStaticCredentialsProvider("a", "s", "")
	s := s3grant.New(s3.New(s3.Options{Region: "eu-west-1", Credentials: owner}), s3grant.Options{Loans: s3grant.Loans{
		STS:  sts.New(sts.Options{Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: owner}),
		Role: "arn:aws:iam::111122223333:role/mounts",
	}})
	for write, want := range map[bool]string{
		false: `{"Effect":"Allow","Action":["kms:Decrypt"],"Resource":"*","Condition":{"StringLike":{"kms:ViaService":["s3.*"]}}}`,
		true:  `"Action":["kms:Decrypt","kms:GenerateDataKey"]`,
	} {
		if _, err := s.Lend(t.Context(), grant.Loan{Prefix: "s3://b/x/", Write: write, For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if policy := <-asked; !strings.Contains(policy, want) {
			t.Errorf("write %v: %s", write, policy)
		}
	}
}

func TestLendFailsWithoutConfiguration(t *testing.T) {
	s := s3grant.New(client("https://s3.example", lent(time.Now().Add(time.Hour)), nil), s3grant.Options{})
	if c, err := s.Lend(t.Context(), grant.Loan{Prefix: "s3://b/x/", For: time.Hour}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v, %v", c, err)
	}
}
