package record

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Secrets are the sealed secrets of a job (internal/secret). Each version of its spec has separate secrets, because
// after an update some replicas may still run the previous version, or run it again. The records are removed when the
// job has finished.
type Secrets struct {
	Sealed []byte `json:"sealed"`
}

// SecretsKey is the key of the Secrets of a version of a job's spec. For jobs that were updated before versions had
// separate secrets, the first key has the secrets of the last version.
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
