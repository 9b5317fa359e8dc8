// Command cloud-lambda is the AWS Lambda function that buys and frees machines on Lambda's GPU cloud.
package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/lambdakit"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/cloudhost"
)

func main() { cloudhost.Serve(kit) }

// kit is the cloud's, with its key in the deployment's parameter.
func kit(env cloudhost.Env, cfg aws.Config) cloudkit.Kit {
	client, name := ssm.NewFromConfig(cfg), "/"+env.Deployment+"/clouds/lambda-key"
	return lambdakit.KitBy(func(ctx context.Context) (string, error) {
		out, err := client.GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.Parameter.Value), nil
	})
}
