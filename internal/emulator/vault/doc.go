// Package vault emulates the secret stores of Google Cloud and Azure: Secret Manager according to its discovery
// document, and Key Vault with the fake server of its SDK. Both are HTTP handlers.
package vault

// Secrets holds secrets by name: for Google projects/P/secrets/S/versions/V; for Azure VAULT/NAME for the current
// version, or VAULT/NAME/VERSION.
type Secrets map[string]Secret

// Secret is the value under a name, or the error that is returned instead.
type Secret struct {
	Value   string
	Status  int    // of the error; 0 means no error
	Message string // of the error
}
