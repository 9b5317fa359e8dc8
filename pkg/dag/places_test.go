package dag_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func TestInPlaces(t *testing.T) {
	for _, c := range []struct {
		allowed, cloud, region string
		want                   bool
	}{
		{"", "aws", "us-east-1", true}, {"aws", "aws", "us-east-1", true}, {"aws", "gcp", "us-east1", false},
		{"aws:eu-west-1", "aws", "eu-west-1", true}, {"aws:eu-west-1", "aws", "eu-west-3", false},
		{"us-east-1", "aws", "us-east-1", true},
		{"eu", "aws", "eu-west-1", true}, {"eu", "aws", "eu-west-2", false}, {"eu", "aws", "us-east-1", false},
		{"eu", "gcp", "europe-west4", true}, {"eu", "gcp", "europe-west6", false}, {"eu", "gcp", "me-west1", false},
		{"eu", "azure", "westeurope", true}, {"eu", "azure", "uksouth", false}, {"eu", "azure", "swedencentral", true},
		{"eu", "lambda", "europe-central-1", true}, {"eu", "azure", "australiaeast", false},
	} {
		var allowed []string
		if c.allowed != "" {
			allowed = []string{c.allowed}
		}
		if got := dag.InPlaces(allowed, c.cloud, c.region); got != c.want {
			t.Errorf("%q, %s:%s: %v", c.allowed, c.cloud, c.region, got)
		}
	}
}
