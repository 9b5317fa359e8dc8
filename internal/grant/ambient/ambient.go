// Package ambient opens the stores of the three clouds with the credentials of the user who runs this process, as
// found by each cloud's own tools. It is for a broker on a user's computer or in a cluster. A store is opened at its
// first use. Thus a user needs no credentials for the stores of other clouds, and the broker's start is not delayed
// by them.
package ambient

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/smithy-go/logging"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/lazy"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Stores returns the stores by scheme: s3, gs and azblob.
func Stores() grant.Mux {
	return grant.Mux{
		"s3": &lazy.Store{Open: openS3}, "gs": &lazy.Store{Open: openGoogle}, "azblob": &lazy.Store{Open: openAzure},
	}
}

// EnvMountsRole is the environment variable with the ARN of the role for mounts of S3. The agent gets credentials of
// the role that are limited to one prefix. Users with long-lived keys do not need it.
const EnvMountsRole = "TRADEWIND_MOUNTS_ROLE"

// openS3 uses the credentials that the AWS SDK finds: the environment, the shared files, a role.
func openS3(ctx context.Context) (grant.Store, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, err
	}
	// Check here: without credentials, every request would fail with an error that looks like a network problem.
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // NewAnywhere looks up each bucket's region
	}
	return s3grant.NewAnyRegion(s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil // a custom endpoint has no host for each bucket
	}), s3grant.Options{Loans: s3grant.Loans{STS: sts.NewFromConfig(cfg), Role: os.Getenv(EnvMountsRole)}}), nil
}

// openAzure opens the account in AZURE_STORAGE_ACCOUNT, with AZURE_STORAGE_KEY, or else by user delegation with the
// credentials that the Azure SDK finds.
func openAzure(context.Context) (grant.Store, error) {
	account, key := os.Getenv("AZURE_STORAGE_ACCOUNT"), os.Getenv("AZURE_STORAGE_KEY")
	if account == "" {
		return nil, fmt.Errorf("AZURE_STORAGE_ACCOUNT is not set")
	}
	endpoint := "https://" + account + ".blob.core.windows.net"
	if key != "" {
		shared, err := service.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, err
		}
		return azgrant.New(endpoint, azgrant.SharedKey(shared), azgrant.Options{})
	}
	identity, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	client, err := service.NewClient(endpoint, identity, nil)
	if err != nil {
		return nil, err
	}
	return azgrant.New(endpoint, azgrant.Delegation(client), azgrant.Options{})
}
