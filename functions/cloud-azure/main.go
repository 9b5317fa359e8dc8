// Command cloud-azure is the Lambda function that buys and releases machines on Azure.
package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/azurekit"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/cloudhost"
)

func main() { cloudhost.Serve(kit) }

// audience is the audience that Azure requires in tokens of other issuers.
const audience = "api://AzureADTokenExchange"

// kit returns Azure's kit, which authenticates by a token that AWS signs for the function's role
// (sts:GetWebIdentityToken).
func kit(_ cloudhost.Env, cfg aws.Config) cloudkit.Kit {
	client := sts.NewFromConfig(cfg)
	return azurekit.KitBy(func(ctx context.Context) (string, error) {
		out, err := client.GetWebIdentityToken(ctx, &sts.GetWebIdentityTokenInput{
			Audience: []string{audience}, SigningAlgorithm: aws.String("RS256"), DurationSeconds: aws.Int32(300),
		})
		if retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err).Bool() {
			err = fmt.Errorf("%w: %w", azurekit.ErrSignerUnavailable, err)
		}
		if err != nil {
			return "", err
		}
		return aws.ToString(out.WebIdentityToken), nil
	})
}
