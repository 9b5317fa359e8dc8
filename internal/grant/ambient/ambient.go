// Package ambient opens the stores of the three clouds with the credentials of the user who runs this process, as
// found by each cloud's own tools. It is for a broker on a user's computer or in a cluster. A store is opened at its
// first use, so that users of other clouds need no credentials for it and start no later.
package ambient

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/aws/smithy-go/logging"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Stores returns the stores by scheme: s3, gs and azblob.
func Stores() grant.Mux {
	return grant.Mux{"s3": &lazy{open: openS3}, "gs": &lazy{open: openGoogle}, "azblob": &lazy{open: openAzure}}
}

// EnvMountsRole is the variable with the ARN of the role whose credentials are lent for mounts of S3, each limited to
// one prefix. Users with long-lived keys do not need it.
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

// lazy is a store that is opened at its first use. If that fails, it tries again at the next use.
type lazy struct {
	open func(context.Context) (grant.Store, error)

	mu    sync.Mutex
	store grant.Store
}

func (l *lazy) get(ctx context.Context) (grant.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil {
		return l.store, nil
	}
	s, err := l.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", grant.ErrCredentials, err)
	}
	l.store = s
	return s, nil
}

// Sign implements grant.Signer.
func (l *lazy) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return s.Sign(ctx, wants...)
}

// Lend implements grant.Lender.
func (l *lazy) Lend(ctx context.Context, loan grant.Loan) (grant.Credentials, error) {
	s, err := l.get(ctx)
	if err != nil {
		return grant.Credentials{}, err
	}
	return grant.Lend(ctx, s, loan)
}

// MakeBucket implements grant.Bucketer.
func (l *lazy) MakeBucket(ctx context.Context, bucket string) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return grant.MakeBucket(ctx, s, bucket)
}

// RemoveBucket implements grant.Bucketer.
func (l *lazy) RemoveBucket(ctx context.Context, bucket string) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return grant.RemoveBucket(ctx, s, bucket)
}

// Begin implements grant.Store.
func (l *lazy) Begin(ctx context.Context, uri string) (string, error) {
	s, err := l.get(ctx)
	if err != nil {
		return "", err
	}
	return s.Begin(ctx, uri)
}

// Complete implements grant.Store.
func (l *lazy) Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Complete(ctx, uri, upload, parts)
}

// Abort implements grant.Store.
func (l *lazy) Abort(ctx context.Context, uri, upload string) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Abort(ctx, uri, upload)
}

// List implements grant.Store.
func (l *lazy) List(ctx context.Context, prefix, after string) (grant.Page, error) {
	s, err := l.get(ctx)
	if err != nil {
		return grant.Page{}, err
	}
	return s.List(ctx, prefix, after)
}

// Remove implements grant.Store.
func (l *lazy) Remove(ctx context.Context, uri string) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Remove(ctx, uri)
}
