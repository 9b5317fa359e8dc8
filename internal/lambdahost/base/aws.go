package base

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// AWSConfig is the SDK's configuration as Lambda gives it: region, keys of the function's role and, where the cloud is
// an emulator, endpoints. Those are all in the environment for as long as the sandbox lives, so the functions are
// spared the SDK's own search, which links the clients of STS and of single sign-on.
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

// endpoints finds the endpoint of one service, AWS_ENDPOINT_URL_SERVICE. The SDK's clients ask it by this method.
type endpoints func(name string) string

// GetServiceBaseEndpoint returns the endpoint for a service by its SDK ID.
func (e endpoints) GetServiceBaseEndpoint(_ context.Context, sdkID string) (url string, found bool, err error) {
	url = e("AWS_ENDPOINT_URL_" + strings.ToUpper(strings.ReplaceAll(sdkID, " ", "_")))
	return url, url != "", nil
}
