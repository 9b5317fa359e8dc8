// Package vault stands for where Google Cloud and Azure keep secrets: Secret Manager as its discovery document
// describes it, and Key Vault by the fake server of its own SDK. Both are HTTP handlers.
package vault

// Kept are secrets by name: in Google projects/P/secrets/S/versions/V, in Azure VAULT/NAME, of the current version, or
// VAULT/NAME/VERSION.
type Kept map[string]Secret

// Secret is what is kept under a name, or why it is not handed out.
type Secret struct {
	Value  string
	Status int    // of a refusal; 0 where there is none
	Words  string // of a refusal
}
