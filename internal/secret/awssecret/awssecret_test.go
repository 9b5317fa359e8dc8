package awssecret_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/internal/secret/awssecret"
)

// account is an AWS account with a parameter and a secret. The secret is created with the API of its own service.
func account(t *testing.T) *ssm.Client {
	t.Helper()
	endpoint := emulator.Moto(t)
	client := ssm.New(ssm.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	})
	_, err := client.PutParameter(t.Context(), &ssm.PutParameterInput{
		Name: aws.String("/team/hf"), Value: aws.String("hunter2"), Type: types.ParameterTypeSecureString,
		Overwrite: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint,
		strings.NewReader(`{"Name":"team/wandb","SecretString":"from the manager"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Target", "secretsmanager.CreateSecret")
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261122/us-east-1/secretsmanager/aws4_request, "+
		"SignedHeaders=host, Signature=0")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return client
}

func TestFetchParametersAndSecrets(t *testing.T) {
	client := account(t)
	sources := awssecret.Sources(func(context.Context) (awssecret.SSM, error) { return client, nil })
	for _, c := range []struct{ scheme, name, want string }{
		{secret.SSM, "/team/hf", "hunter2"}, {secret.SSM, "/team/hf:1", "hunter2"},
		{secret.SecretsManager, "team/wandb", "from the manager"},
	} {
		got, err := sources[c.scheme].Fetch(t.Context(), c.name)
		if err != nil || got != c.want {
			t.Errorf("%s:%s: %q %v", c.scheme, c.name, got, err)
		}
	}
	for scheme := range sources {
		if _, err := sources[scheme].Fetch(t.Context(), "/team/none"); !errors.Is(err, secret.ErrUnavailable) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// Only names below the configured paths may be fetched. The broker's role can read more than the users who submit
// jobs may read, for example the key of the broker's tokens.
func TestFetchOnlyBelowAllowedPaths(t *testing.T) {
	asked := 0
	sources := awssecret.Sources(func(context.Context) (awssecret.SSM, error) {
		asked++
		return nil, errors.New("asked")
	}, "/tw/secrets/")
	for name, want := range map[string]bool{
		"/tw/secrets/a": true, "/tw/token-key": false, "/tw/secrets/": true, "/tw/secretsa": false, "/": false,
		"//tw/secrets/a": false, "/tw/secrets": false,
	} {
		asked = 0
		_, err := sources[secret.SSM].Fetch(t.Context(), name)
		if (asked == 1) != want || !want && !errors.Is(err, secret.ErrUnavailable) {
			t.Errorf("%s: asked %d times, %v", name, asked, err)
		}
	}
}
