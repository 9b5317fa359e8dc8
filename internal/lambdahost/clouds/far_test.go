package clouds

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func TestTheCloudsOfADeploymentAreFarButForItsOwn(t *testing.T) {
	h := &lambdahost.Host{Env: lambdahost.Env{Deployment: "tw", Clouds: []string{"aws", "gcp", "lambda"}}, AWS: aws.Config{Region: "us-east-1"}}
	got := map[string]cloud.Cloud{}
	addFar(h, got)
	if len(got) != 2 || got["gcp"].Name() != "gcp" || got["lambda"].Name() != "lambda" {
		t.Errorf("%v", got)
	}
}
