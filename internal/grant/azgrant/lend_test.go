package azgrant_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/granttest"
)

// holder accesses a store with a signature. Without one, it uses the account's key.
type holder struct {
	endpoint, query string
	key             *service.SharedKeyCredential
}

func (h holder) container(uri string) (*container.Client, string, error) {
	name, blob, _ := strings.Cut(strings.TrimPrefix(uri, "azblob://"), "/")
	if h.query == "" {
		c, err := container.NewClientWithSharedKeyCredential(h.endpoint+"/"+name, h.key, nil)
		return c, blob, err
	}
	c, err := container.NewClientWithNoCredential(h.endpoint+"/"+name+"?"+h.query, nil)
	return c, blob, err
}

func (h holder) blob(uri string) (*blockblob.Client, error) {
	c, name, err := h.container(uri)
	if err != nil {
		return nil, err
	}
	return c.NewBlockBlobClient(name), nil
}

func (h holder) Read(ctx context.Context, uri string) ([]byte, error) {
	b, err := h.blob(uri)
	if err != nil {
		return nil, err
	}
	out, err := b.DownloadStream(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer out.Body.Close() //nolint:errcheck // read
	return io.ReadAll(out.Body)
}

func (h holder) Write(ctx context.Context, uri string, body []byte) error {
	b, err := h.blob(uri)
	if err != nil {
		return err
	}
	_, err = b.UploadBuffer(ctx, bytes.Clone(body), nil)
	return err
}

func (h holder) List(ctx context.Context, prefix string) error {
	c, below, err := h.container(prefix)
	if err != nil {
		return err
	}
	_, err = c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &below}).NextPage(ctx)
	return err
}

func (h holder) Remove(ctx context.Context, uri string) error {
	b, err := h.blob(uri)
	if err != nil {
		return err
	}
	_, err = b.Delete(ctx, nil)
	return err
}

// The suite lends whole containers, because Azurite has no hierarchical namespace.
func TestLoanConformance(t *testing.T) {
	granttest.RunLoans(t, func(t *testing.T) granttest.LoanHarness {
		endpoint := servers.Azurite(t) + "/" + servers.AzureAccount
		key, err := service.NewSharedKeyCredential(servers.AzureAccount, servers.AzureKey)
		if err != nil {
			t.Fatal(err)
		}
		account, err := service.NewClientWithSharedKeyCredential(endpoint, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		made := func(name string) string {
			_, _ = account.CreateContainer(t.Context(), name, nil) // it may exist already
			return "azblob://" + name
		}
		store, err := azgrant.New(endpoint, azgrant.SharedKey(key), azgrant.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return granttest.LoanHarness{
			Lender: store, Owner: holder{endpoint: endpoint, key: key},
			Hold: func(_ *testing.T, c grant.Credentials) granttest.Holder {
				return holder{endpoint: c.Endpoint, query: c.Query}
			},
			Bucket: made("lent"), Other: made("others"), Buckets: true,
			Prefix: func(name string) (lent, beside string) { return made(name) + "/", made(name+"-beside") + "/" },
		}
	})
}

// The signature for a directory must contain the directory and its depth, which Azure checks.
func TestLendSignsDirectory(t *testing.T) {
	key, err := service.NewSharedKeyCredential("account", servers.AzureKey)
	if err != nil {
		t.Fatal(err)
	}
	store, err := azgrant.New("https://account.blob.core.windows.net", azgrant.SharedKey(key), azgrant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := store.Lend(t.Context(), grant.Loan{Prefix: "azblob://c/a/b/", For: time.Hour})
	if err != nil || !strings.Contains(c.Query, "sr=d") || !strings.Contains(c.Query, "sdd=2") ||
		!strings.Contains(c.Query, "sp=rl") {
		t.Errorf("%s, %v", c.Query, err)
	}
}
