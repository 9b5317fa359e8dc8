package data_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Only the clouds with a store of the deployment's are asked to sign, each by its own function.
func TestTheStoresOfADeployment(t *testing.T) {
	env := lambdahost.Env{
		Deployment: "tw", WorkBucket: "work", Regions: []string{"us-east-1"}, Clouds: []string{"aws", "gcp", "azure", "lambda"},
		Stores: map[string]string{"us-west-2": "west", "gcp:us-central1": "gs://acme"},
	}
	h := &lambdahost.Host{Env: env, AWS: aws.Config{Region: "us-east-1"}}
	if err := data.Part(h); err != nil {
		t.Fatal(err)
	}
	stores, ok := h.Ports.Data.(grant.Mux)
	if got := slices.Sorted(maps.Keys(stores)); !ok || !slices.Equal(got, []string{"gs", "s3"}) {
		t.Errorf("stores of %v", got)
	}
	want := map[string]string{"aws:us-east-1": "s3://work", "aws:us-west-2": "s3://west", "gcp:us-central1": "gs://acme"}
	if got := lambdahost.Stores(env).URLs; !maps.Equal(got, want) {
		t.Errorf("kept in %v", got)
	}
}
