package azurekit

import (
	"net/http/httptest"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/emulator/blob"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant/granttest"
)

// The containers in the settings can be created, written, read and removed. Requests are signed with a delegation key
// that Azure gives to the caller.
func TestStore(t *testing.T) {
	key, err := service.NewSharedKeyCredential(servers.AzureAccount, servers.AzureKey)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := blob.New(servers.Azurite(t), key, "ZGVsZWdhdGlvbg==")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gate)
	t.Cleanup(server.Close)
	s := cloudkit.Settings{Stores: map[string]string{"eastus": "work"}, Storage: server.URL}
	if _, err := store(s, emulated{}); err == nil {
		t.Error("a store without a storage account was accepted")
	}
	s.StorageAccount = servers.AzureAccount
	data, err := store(s, emulated{})
	if err != nil {
		t.Fatal(err)
	}
	granttest.RunBuckets(t, data, "azblob://work")
}
