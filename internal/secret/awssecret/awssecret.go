// Package awssecret fetches secrets from the parameters of AWS Systems Manager (SSM), and through them from AWS
// Secrets Manager: SSM returns a secret as the parameter /aws/reference/secretsmanager/NAME to callers that may read
// the secret there.
package awssecret

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	"github.com/tradewind-broker/tradewind/internal/secret"
)

// SSM is the part of *ssm.Client that the package needs.
type SSM interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// Sources returns the sources of both schemes. client is called at the first fetch. If within lists paths, such as
// /team/, only names below one of them are fetched, in both services. The limit is needed because a broker can read
// more secrets than its users should.
func Sources(client func(context.Context) (SSM, error), within ...string) map[string]secret.Source {
	return map[string]secret.Source{
		secret.SSM:            parameters{client, "", within},
		secret.SecretsManager: parameters{client, "/aws/reference/secretsmanager/", within},
	}
}

type parameters struct {
	client func(context.Context) (SSM, error)
	prefix string
	within []string
}

// Fetch implements secret.Source.
func (p parameters) Fetch(ctx context.Context, name string) (string, error) {
	path := "/" + strings.TrimPrefix(name, "/")
	below := func(dir string) bool { return strings.HasPrefix(path, dir) }
	if p.within != nil && !slices.ContainsFunc(p.within, below) {
		return "", fmt.Errorf("%w: this broker reads only names below %s", secret.ErrUnavailable,
			cmp.Or(strings.Join(p.within, ", "), "no path at all"))
	}
	client, err := p.client(ctx)
	if err != nil {
		return "", err
	}
	out, err := client.GetParameter(ctx, &ssm.GetParameterInput{
		Name: aws.String(p.prefix + name), WithDecryption: aws.Bool(true),
	})
	if err != nil {
		return "", refusal(err)
	}
	return aws.ToString(out.Parameter.Value), nil
}

// refusal marks errors for which a retry does not help as ErrUnavailable, with AWS's message.
func refusal(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode() {
	case "ParameterNotFound", "ParameterVersionNotFound", "AccessDeniedException", "InvalidKeyId",
		"ValidationException":
		why := api.ErrorMessage()
		if why == "" {
			why = api.ErrorCode()
		}
		return fmt.Errorf("%w: %s", secret.ErrUnavailable, why)
	}
	return err
}
