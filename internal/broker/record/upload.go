package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Upload is the record of a multipart upload that an attempt has begun, until it is completed or aborted. What is left
// of them when the attempt's machines are gone is aborted.
type Upload struct {
	URI    string    `json:"uri"`
	Upload string    `json:"upload"`
	At     time.Time `json:"at"`
	// Completing is how many calls have set out to complete it and have not said what came of it: after a crash nobody
	// knows whether the store had done it.
	Completing int `json:"completing,omitempty"`
}

// UploadPrefix begins the sort keys of a cluster's uploads.
func UploadPrefix(cluster string) string { return "upload#" + cluster + "#" }

// UploadKey is the key of an Upload.
func UploadKey(cluster string, up Upload) store.Key {
	return store.Key{
		Partition: JobPart(ClusterJob(cluster)), Sort: UploadPrefix(cluster) + ShortHash(up.URI, up.Upload),
	}
}
