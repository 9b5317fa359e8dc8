package record

import "github.com/tradewind-broker/tradewind/pkg/store"

// Secrets are the secrets of a job, sealed (pkg/secret). The record goes when the job is over.
type Secrets struct {
	Sealed []byte `json:"sealed"`
}

// SecretsKey is the key of a Secrets.
func SecretsKey(job string) store.Key { return store.Key{Partition: JobPart(job), Sort: "secrets"} }
