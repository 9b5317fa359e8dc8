package far

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

func TestCloudsExcludesAWS(t *testing.T) {
	s := &lambdahost.Sandbox{Env: lambdahost.Env{Deployment: "tw", Clouds: []string{"aws", "gcp", "lambda"}}, AWS: aws.Config{Region: "us-east-1"}}
	got := New(s).Clouds()
	if len(got) != 2 || got["gcp"].Name() != "gcp" || got["lambda"].Name() != "lambda" {
		t.Errorf("%v", got)
	}
}
