package s3grant_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Many agents request grants at the same time. The requests share a client, and each has its own presigner.
func TestConcurrentSign(t *testing.T) {
	s := s3grant.New(s3.New(s3.Options{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	}), s3grant.Options{})
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			_, err := s.Sign(t.Context(), grant.Want{Op: grant.Get, URI: "s3://b/k", For: time.Minute})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}
