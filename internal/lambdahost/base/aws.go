package base

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// AWSConfig returns the SDK's configuration from Lambda's environment: region, keys of the function's role and, for
// emulators, endpoints. The environment does not change while the sandbox exists, so the functions do not need the
// SDK's own search, which would link the clients of STS and single sign-on.
func AWSConfig(getenv func(string) string) (aws.Config, error) {
	r := Reader{Getenv: getenv}
	cfg := aws.Config{
		Region: r.Need("AWS_REGION"),
		Credentials: credentials.NewStaticCredentialsProvider(r.Need("AWS_ACCESS_KEY_ID"),
			r.Need("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN")),
		ConfigSources: []any{endpoints(getenv)},
	}
	if url := getenv("AWS_ENDPOINT_URL"); url != "" {
		cfg.BaseEndpoint = aws.String(url)
	}
	return cfg, r.Err()
}

// endpoints returns the endpoint of a service, AWS_ENDPOINT_URL_SERVICE. The SDK's clients call its method.
type endpoints func(name string) string

// GetServiceBaseEndpoint returns the endpoint for a service by its SDK ID.
func (e endpoints) GetServiceBaseEndpoint(_ context.Context, sdkID string) (url string, found bool, err error) {
	url = e("AWS_ENDPOINT_URL_" + strings.ToUpper(strings.ReplaceAll(sdkID, " ", "_")))
	return url, url != "", nil
}
