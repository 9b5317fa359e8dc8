package azgrant_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/granttest"
)

// counting counts requests to Azure.
type counting struct{ calls atomic.Int64 }

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return http.DefaultTransport.RoundTrip(r)
}

const (
	serviceSAS = "a service SAS does not sign it " +
		"(learn.microsoft.com/rest/api/storageservices/create-service-sas, string-to-sign)"
	noLength = "azgrant does not sign it: the documentation does not say that a SAS can require that header " +
		"(learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas)"
	noETag  = "a block list has no ETags (learn.microsoft.com/rest/api/storageservices/put-block-list)"
	noLeast = "blocks may be of any size (learn.microsoft.com/rest/api/storageservices/put-block)"
	noAbort = "Azure cannot abort: it drops uncommitted blocks after a week " +
		"(learn.microsoft.com/rest/api/storageservices/put-block)"
)

func azurite(t *testing.T) (endpoint string, key *service.SharedKeyCredential) {
	t.Helper()
	endpoint = servers.Azurite(t) + "/" + servers.AzureAccount
	key = mustKey(t)
	client, err := service.NewClientWithSharedKeyCredential(endpoint, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, container := range []string{"grants", "others"} {
		if _, err := client.CreateContainer(t.Context(), container, nil); err != nil {
			t.Fatal(err)
		}
	}
	return endpoint, key
}

func harness(t *testing.T, endpoint string, keys azgrant.Credential) granttest.Harness {
	t.Helper()
	var count counting
	return granttest.Harness{
		At: func(now time.Time) grant.Store {
			s, err := azgrant.New(endpoint, keys, azgrant.Options{
				Client: &http.Client{Transport: &count}, Now: func() time.Time { return now },
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Calls:  func() int { return int(count.calls.Load()) },
		Prefix: "azblob://grants/job/", Other: "azblob://others/", NoBucket: "azblob://none/",
		Secrets: []string{servers.AzureKey},
	}
}

func TestMakeAndRemoveContainers(t *testing.T) {
	endpoint, key := azurite(t)
	s, err := azgrant.New(endpoint, azgrant.SharedKey(key), azgrant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	granttest.RunBuckets(t, s, "azblob://made")
}

func TestConformanceBySharedKey(t *testing.T) {
	granttest.Run(t, func(t *testing.T) granttest.Harness {
		endpoint, key := azurite(t)
		h := harness(t, endpoint, azgrant.SharedKey(key))
		h.Lacks = map[granttest.Check]string{
			granttest.Headers: serviceSAS, granttest.Parts: serviceSAS, granttest.Lengths: serviceSAS,
			granttest.PartETags: noETag, granttest.MinParts: noLeast, granttest.Aborts: noAbort,
		}
		return h
	})
}
