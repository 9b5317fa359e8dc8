package data_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
)

// Only clouds that have a store of the deployment are asked to sign, each through its own function.
func TestStores(t *testing.T) {
	env := lambdahost.Env{
		Deployment: "tw", WorkBucket: "work", Regions: []string{"us-east-1"}, Clouds: []string{"aws", "gcp", "azure", "lambda"},
		Stores: map[string]string{"us-west-2": "west", "gcp:us-central1": "gs://acme"},
	}
	s := &lambdahost.Sandbox{Env: env, AWS: aws.Config{Region: "us-east-1"}}
	stores := data.New(s, far.New(s))
	if got := slices.Sorted(maps.Keys(stores)); !slices.Equal(got, []string{"gs", "s3"}) {
		t.Errorf("stores of %v", got)
	}
	want := map[string]string{"aws:us-east-1": "s3://work", "aws:us-west-2": "s3://west", "gcp:us-central1": "gs://acme"}
	if got := lambdahost.Stores(env).URLs; !maps.Equal(got, want) {
		t.Errorf("kept in %v", got)
	}
}
