package record

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Secrets are the secrets of a job, sealed (internal/secret): each version of its spec has its own, as replicas of services
// may run that of before an update, or again. The records go when the job is over.
type Secrets struct {
	Sealed []byte `json:"sealed"`
}

// SecretsKey is the key of the Secrets of a version of a job's spec. Jobs that were updated before versions had
// separate secrets have those of the last version under the first key.
func SecretsKey(job string, version int) store.Key {
	key := store.Key{Partition: JobPart(job), Sort: "secrets"}
	if version > 1 {
		key.Sort = fmt.Sprintf("secrets#%06d", version)
	}
	return key
}

// SecretsKeys are the keys of all Secrets that a job may have.
func (j *Job) SecretsKeys() []store.Key {
	keys := []store.Key{SecretsKey(j.ID, 1), SecretsKey(j.ID, j.Spec.Version)}
	for _, was := range j.Was {
		keys = append(keys, SecretsKey(j.ID, was.Version))
	}
	return keys
}
