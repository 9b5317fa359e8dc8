package restsecret

import (
	"context"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
)

// keyVaultName restricts the vault's name, which becomes part of a host name.
var keyVaultName = lazyregexp.New(`^[A-Za-z][A-Za-z0-9-]{1,22}[A-Za-z0-9]/[A-Za-z0-9-]{1,127}(/[a-f0-9]{32})?$`)

// KeyVaultScope is the scope of a token for Azure Key Vault.
const KeyVaultScope = "https://vault.azure.net/.default"

// KeyVault fetches secrets from Azure Key Vault. Without a version in the name it fetches the current one.
type KeyVault struct {
	Client Client
	// Endpoint returns the URL of a vault; if nil, Azure's own.
	Endpoint func(vault string) string
}

// Fetch implements secret.Source (Key Vault REST API 7.4, Get Secret).
func (k KeyVault) Fetch(ctx context.Context, name string) (string, error) {
	if !keyVaultName.MatchString(name) {
		return "", malformed("keyvault:VAULT/NAME, optionally with /VERSION")
	}
	vault, path, _ := strings.Cut(name, "/")
	base := "https://" + vault + ".vault.azure.net"
	if k.Endpoint != nil {
		base = k.Endpoint(vault)
	}
	var bundle struct {
		Value string `json:"value"`
	}
	err := get(ctx, k.Client, base+"/secrets/"+path+"?api-version=7.4", &bundle)
	return bundle.Value, err
}
