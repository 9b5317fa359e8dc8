// Package azurekit opens Azure.
package azurekit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Name is the catalogue's name of the cloud.
const Name = identity.AzureName

// Assertion returns a token that proves the AWS role of a function to an Azure application.
type Assertion func(context.Context) (string, error)

// Kit returns the kit of Azure, with the credentials that Azure's libraries find: az login, the environment, a
// managed identity.
func Kit() cloudkit.Kit { return KitBy(nil) }

// KitBy returns the kit of Azure for a caller that proves its identity with assertions.
func KitBy(assertion Assertion) cloudkit.Kit {
	return cloudkit.Kit{
		Name: Name, Title: "Microsoft Azure",
		Example: "--subscription ID --principal ID --regions eastus",
		Ready:   ready, Account: account, Flags: flags,
		Open: func(_ context.Context, r cloudkit.Request) (*cloudkit.Opened, error) { return open(r, assertion) },
	}
}

func flags(f *pflag.FlagSet, s *cloudkit.Settings) {
	cloudkit.NetworkFlags(f, s)
	cloudkit.ReservedFlag(f, s)
	f.StringVar(&s.Subscription, "subscription", "", "ID of the Azure subscription")
	f.StringVar(&s.ResourceGroup, "resource-group", "",
		"resource group of the machines (default: the deployment's name)")
	f.StringToStringVar(&s.Subnets, "subnets", nil,
		"existing subnets for the machines, REGION=ID separated by commas; a network is created in\n"+
			"other regions")
	f.StringVar(&s.Principal, "principal", "",
		"object ID of the identity that buys: a resource group and two roles are created for it")
	cloudkit.FunctionFlags(f, s)
	cloudkit.EmulatorFlags(f, s)
	f.StringVar(&s.Functions.Issuer, "aws-issuer", "",
		"URL that signs tokens for that account, which\naws iam get-outbound-web-identity-federation-info prints")
	f.StringToStringVar(&s.Stores, "stores", nil,
		"containers for the outputs of tasks, REGION=CONTAINER separated by commas: created if\n"+
			"they do not exist; without any, outputs are stored on this computer")
	f.StringVar(&s.StorageAccount, "storage-account", "", "storage account of the containers")
	f.StringVar(&s.Tenant, "tenant", "", "directory of --client")
	f.StringVar(&s.Client, "client", "", "ID of the application whose rights are used")
}

var (
	errNoSubscription = errors.New("no subscription: tradewind cloud add azure --subscription ID --regions R")
	errNoIssuer       = errors.New("no issuer of the AWS account's tokens: --aws-issuer " +
		"https://….tokens.sts.global.api.aws, as `aws iam get-outbound-web-identity-federation-info` prints it")
	errNoRegions = errors.New("no regions: tradewind cloud add azure --regions eastus,westeurope")
)

func ready(s cloudkit.Settings, _ cloudkit.Lookup) error {
	switch {
	case s.Subscription == "":
		return errNoSubscription
	case len(s.Regions) == 0:
		return errNoRegions
	case s.Functions.Account != "" && s.Functions.Issuer == "":
		return errNoIssuer
	}
	for region, id := range s.Subnets {
		if !slices.Contains(s.Regions, region) || !subnetID.MatchString(id) {
			return fmt.Errorf("%w: subnets: %s=%s: want a region of --regions and the ID of a subnet, "+
				"which `az network vnet subnet show --query id` prints", cloudkit.ErrSettings, region, id)
		}
	}
	return s.Check()
}

var subnetID = regexp.MustCompile(
	`(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Network/virtualNetworks/[^/]+/subnets/[^/]+$`)

func account(s cloudkit.Settings, _ cloudkit.Lookup) string {
	if s.Subscription == "" {
		return ""
	}
	return "subscription " + s.Subscription
}

func open(r cloudkit.Request, assertion Assertion) (*cloudkit.Opened, error) {
	s := r.Settings
	if err := ready(s, r.Lookup); err != nil {
		return nil, err
	}
	credential, err := credentials(s, assertion)
	if err != nil {
		return nil, fmt.Errorf("azure: credentials: %w", err)
	}
	c, err := azure.New(azure.Config{
		Deployment: r.Deployment, Subscription: s.Subscription, ResourceGroup: s.ResourceGroup, Regions: s.Regions,
		Agents: r.Agents, NoPublicAddress: s.NoPublicAddress, Graves: r.Graves, Log: r.Log, Credential: credential,
		Options: options(s.Endpoint), Environment: s.Environment(), Tags: s.Tags, Images: s.Images,
		Subnets: s.Subnets,
	})
	if err != nil {
		return nil, err
	}
	proofs, err := verifier(s)
	if err != nil {
		return nil, err
	}
	data, err := store(s, credential)
	if err != nil {
		return nil, err
	}
	secrets, err := secrets(s, credential)
	if err != nil {
		return nil, err
	}
	return &cloudkit.Opened{
		Cloud: c, Checker: renew.WithOwned(c, owned(c)), Verifier: proofs, Data: data, Regions: s.Regions,
		Refresh: cloudkit.Reserving(azure.Name, s, refresher(c, r)), Secrets: secrets,
	}, nil
}

var errNoAccount = errors.New("azure: stores= needs storageAccount=NAME, the storage account of the containers")

// store signs requests for the settings' containers by user delegation, which needs no key of the account.
func store(s cloudkit.Settings, credential azcore.TokenCredential) (grant.Store, error) {
	switch {
	case len(s.Stores) == 0:
		return nil, nil //nolint:nilnil // there are no stores
	case s.StorageAccount == "":
		return nil, errNoAccount
	}
	endpoint := "https://" + s.StorageAccount + ".blob.core.windows.net"
	if s.Storage != "" {
		endpoint = s.Storage + "/" + s.StorageAccount
	}
	client, err := service.NewClient(endpoint, credential, &service.ClientOptions{
		ClientOptions: azcore.ClientOptions{InsecureAllowCredentialWithHTTP: cloudkit.Loopback(s.Storage)},
	})
	if err != nil {
		return nil, fmt.Errorf("azure: storage account %s: %w", s.StorageAccount, err)
	}
	return azgrant.New(endpoint, azgrant.Delegation(client), azgrant.Options{})
}

// owned reads the capacity that the subscription already has.
func owned(c *azure.Cloud) renew.Owned {
	return func(ctx context.Context) ([]driver.Reserved, []driver.Lack) { return azure.Owned(ctx, c) }
}

// refresher updates Azure's part of the catalogue. An emulator has its own price list; a proxy of the API has none.
func refresher(c *azure.Cloud, r cloudkit.Request) driver.Refresh {
	list := ""
	if cloudkit.Loopback(r.Settings.Endpoint) {
		list = strings.TrimSuffix(r.Settings.Endpoint, "/") + "/api/retail/prices"
	}
	return func(ctx context.Context, s driver.Snapshots) (driver.Refreshed, error) {
		one := azure.Refresher{Cloud: c, Prices: list, Snapshots: s, Now: time.Now, Log: r.Log}
		res, err := one.Refresh(ctx)
		return driver.Refreshed{Offers: res.Offers, Kept: res.Kept}, err
	}
}

// verifier checks the documents that Azure attests, with the certificates of the file Proofs if it is set.
func verifier(s cloudkit.Settings) (*identity.AzureVerifier, error) {
	if s.Proofs == "" {
		return identity.NewAzure(identity.AzureConfig{})
	}
	pem, err := os.ReadFile(s.Proofs)
	if err != nil {
		return nil, fmt.Errorf("azure: certificates: %w", err)
	}
	cfg, err := identity.LocalAzure(pem)
	if err != nil {
		return nil, fmt.Errorf("azure: certificates of %s: %w", s.Proofs, err)
	}
	return identity.NewAzure(cfg)
}

// credentials returns those of the environment, or those that Azure gives for an assertion. For an emulator at a
// loopback address it returns credentials that no real service accepts.
func credentials(s cloudkit.Settings, assertion Assertion) (azcore.TokenCredential, error) {
	switch {
	case cloudkit.Loopback(s.Endpoint):
		return emulated{}, nil
	case assertion != nil && s.Client != "":
		return newSigned(s.Tenant, s.Client, assertion, nil)
	default:
		return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{TenantID: s.Tenant})
	}
}

// Access returns credentials and the address of Azure for settings, as Azure clients need them.
func Access(s cloudkit.Settings) (azcore.TokenCredential, *arm.ClientOptions, error) {
	credential, err := credentials(s, nil)
	return credential, options(s.Endpoint), err
}

// options make Azure clients use an endpoint; nil for Azure's own.
func options(endpoint string) *arm.ClientOptions {
	if endpoint == "" {
		return nil
	}
	return &arm.ClientOptions{ClientOptions: policy.ClientOptions{
		Cloud: azcloud.Configuration{
			ActiveDirectoryAuthorityHost: endpoint,
			Services: map[azcloud.ServiceName]azcloud.ServiceConfiguration{
				azcloud.ResourceManager: {Endpoint: endpoint, Audience: endpoint},
			},
		},
		InsecureAllowCredentialWithHTTP: cloudkit.Loopback(endpoint),
	}}
}

// emulated has a token for an emulator, which checks only that there is one.
type emulated struct{}

// nobody is a token of an invented user, with an invalid signature.
const nobody = "header.eyJvaWQiOiI3IiwidXBuIjoiYWRhQGV4YW1wbGUuY29tIiwidGlkIjoidDEifQ.signature" //nolint:gosec // fake

// GetToken implements azcore.TokenCredential.
func (emulated) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: nobody, ExpiresOn: time.Now().Add(time.Hour)}, ctx.Err()
}
